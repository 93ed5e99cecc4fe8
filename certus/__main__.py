"""`python -m certus`, and what `torchrun -m certus` starts."""

from certus.cli.main import main

if __name__ == "__main__":
    main()
