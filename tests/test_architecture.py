"""Imports go one way, the public list is exact, and help does not wait for torch."""

from __future__ import annotations

import ast
import collections
import re
import subprocess
import sys
from pathlib import Path

import smoothcert

PACKAGE = Path(smoothcert.__file__).parent

# docs/architecture.md holds the rule: each part of the package, and what it may import besides itself.
PAGE = PACKAGE.parent / "docs" / "architecture.md"
ROW = re.compile(r"^\| `([a-z_]+)(/|\.py)` \|[^|]+\| ([^|]+) \|$", re.MULTILINE)
ALLOWED = {
    part: {"" if name == "the public list" else name for name in allowed.split(", ") if name != "nothing"}
    for part, _, allowed in ROW.findall(PAGE.read_text(encoding="utf-8"))
}


def stage_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


LOOK_UPS = ("build", "find", "names", "rebuild")  # of catalog.py: each takes a folder and imports from it


def imports(path: Path) -> set[str]:
    """Stages of smoothcert that a file imports anywhere, also inside functions; `import smoothcert` itself is ''.

    `catalog.build("noise", …)` imports a noise as surely as an import does.
    """
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in LOOK_UPS and isinstance(folder := node.args[0].value, str):
                names = [f"smoothcert.{folder}"] if (PACKAGE / folder.split(".")[0]).is_dir() else []
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
    free = {"__init__", "__main__"}
    stages = {stage_of(path) for path in PACKAGE.rglob("*.py")}
    assert stages - free == set(ALLOWED)
    folders = {part for part, end, _ in ROW.findall(PAGE.read_text(encoding="utf-8")) if end == "/"}
    assert folders == {stage for stage in stages if (PACKAGE / stage).is_dir()}


def test_no_stage_uses_another_that_uses_it():
    """Around a circle of stages nobody could say which comes first."""
    reach = {stage: {other for other in allowed if other} for stage, allowed in ALLOWED.items()}
    for _ in reach:
        reach = {stage: others.union(*(reach[other] for other in others)) for stage, others in reach.items()}
    assert [stage for stage, others in reach.items() if stage in others] == []


def test_a_class_name_occurs_once():
    counted = collections.Counter(
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, times in counted.items() if times > 1} == set()


def private_imports(path: Path) -> set[str]:
    """Modules with an underscore, or names of theirs, that belong to another folder of the package."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name}" for name in names]
        for name in names:
            package, *parts = name.split(".")
            hidden = any(part.startswith("_") and not part.startswith("__") for part in parts)
            if package == "smoothcert" and len(parts) > 1 and hidden and parts[0] != stage_of(path):
                found.add(f"{path.relative_to(PACKAGE)}: {name}")
    return found


def test_what_is_private_stays_in_its_folder():
    found = set().union(*(private_imports(path) for path in PACKAGE.rglob("*.py")))
    assert found == set()


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
