"""Imports go one way, the public list is exact, and help does not wait for torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import smoothcert

PACKAGE = Path(smoothcert.__file__).parent

# Stage → what it may import besides itself. Absent here: free to import what it likes (cli, the top).
ALLOWED = {
    "errors": set(),
    "contracts": {"bounds", "errors"},
    "catalog": {"errors"},
    "files": {"errors"},
    "streams": {"contracts", "errors"},
    "bounds": {"errors"},
    "boundaries": {"bounds", "errors"},
    "readouts": {"contracts", "decisions", "errors"},
    "decisions": {"bounds", "contracts", "errors"},
    "noise": {"contracts", "errors", "streams"},
    "arithmetic": {"contracts", "errors", "noise"},
    "norms": {"contracts", "errors"},
    "architectures": {"contracts", "errors"},
    "data": {"catalog", "contracts", "errors", "files"},
    "training": {
        "architectures",
        "bounds",
        "catalog",
        "contracts",
        "data",
        "errors",
        "files",
        "noise",
        "preparation",
        "zoo",
        "",
    },
    "zoo": {"errors"},
    "classifiers": {"catalog", "contracts", "errors", "files", "training", "zoo"},
    "sampling": {"boundaries", "bounds", "contracts", "errors", "files"},
    "procedures": {"bounds", "contracts", "decisions", "errors", "noise", "readouts", "sampling"},
    "engine": {"bounds", "contracts", "errors", "streams"},
    "ensembles": {
        "bounds",
        "catalog",
        "classifiers",
        "contracts",
        "data",
        "engine",
        "errors",
        "noise",
        "streams",
        "zoo",
    },
    "memory": {"contracts", "errors", "files"},
    "preparation": {"contracts", "errors", "noise"},
    "spec": {"catalog", "contracts", "data", "errors", "files", "preparation"},
    "runs": {
        "catalog",
        "decisions",
        "readouts",
        "bounds",
        "classifiers",
        "contracts",
        "data",
        "engine",
        "errors",
        "files",
        "memory",
        "noise",
        "spec",
    },
    "audit": {"bounds", "classifiers", "contracts", "data", "errors", "norms", "spec", "runs", "streams", "zoo"},
    "report": {
        "boundaries",
        "bounds",
        "catalog",
        "contracts",
        "data",
        "errors",
        "files",
        "noise",
        "norms",
        "spec",
        "runs",
        "sampling",
    },
    "smoothed": {"arithmetic", "classifiers", "contracts", "engine", "errors", "noise", "procedures", "sampling"},
    "testing": {"contracts", "procedures", "smoothed"},
    "compositions": {"catalog", "classifiers", "contracts", "errors", "procedures", "spec", "sampling", "smoothed"},
}


def stage_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Stages of smoothcert that a file imports anywhere, also inside functions; `import smoothcert` itself is ''."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "smoothcert":
            names = [
                f"smoothcert.{alias.name}"
                if (PACKAGE / alias.name).exists() or (PACKAGE / f"{alias.name}.py").exists()
                else "smoothcert."
                for alias in node.names
            ]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        found |= {name.split(".")[1] if "." in name else "" for name in names if name.split(".")[0] == "smoothcert"}
    return found


def test_imports_go_one_way():
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {imported or 'smoothcert itself'}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if (stage := stage_of(path)) in ALLOWED
        for imported in sorted(imports(path) - ALLOWED[stage] - {stage})
    ]
    assert wrong == []


def test_every_stage_is_under_the_rule():
    free = {"__init__", "__main__", "cli", "plan", "py"}
    stages = {stage_of(path) for path in PACKAGE.rglob("*.py")}
    assert stages - free == set(ALLOWED) & stages


def test_the_catalogue_names_no_part():
    text = (PACKAGE / "catalog.py").read_text()
    assert imports(PACKAGE / "catalog.py") == {"errors"} and "import_module(f" in text


def test_the_public_list_is_exact():
    assert smoothcert.__all__ == sorted(smoothcert.__all__) or set(smoothcert.__all__) == set(smoothcert._HOME)
    assert set(smoothcert.__all__) == set(smoothcert._HOME)
    for name in smoothcert.__all__:
        assert getattr(smoothcert, name) is not None
    assert set(dir(smoothcert)) == {*smoothcert.__all__, "__version__"}


def test_help_and_version_do_not_import_torch_or_numpy():
    code = (
        "import sys; from smoothcert.cli.main import run; "
        "codes = [run(a) for a in (['--help'], ['--version'], ['certify', '--help'])];"
        "heavy = {'torch', 'numpy', 'scipy', 'matplotlib', 'onnxruntime'} & set(sys.modules);"
        "assert not heavy, heavy; assert codes == [0, 0, 0], codes"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_every_module_says_what_it_is():
    silent = [str(p) for p in PACKAGE.rglob("*.py") if not ast.get_docstring(ast.parse(p.read_text()))]
    assert silent == []
