"""`python -m smoothcert`, and what `torchrun -m smoothcert` starts."""

from smoothcert.cli.main import main

if __name__ == "__main__":
    main()
