"""The wheel alone is the whole package: built, installed beside its dependencies, and run from another folder."""

from __future__ import annotations

import tarfile
import zipfile

import installed
import pytest

import smoothcert


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return installed.build(tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="module")
def programs(built, tmp_path_factory):
    return installed.install(built[1], tmp_path_factory.mktemp("environment") / "venv")


def test_every_file_of_the_package_is_in_the_wheel_with_the_licence(built):
    package = installed.ROOT / "smoothcert"
    files = {str(path.relative_to(installed.ROOT)) for path in package.rglob("*") if path.is_file()}
    sources = {name for name in files if "__pycache__" not in name}
    with zipfile.ZipFile(built[1]) as wheel:
        held = set(wheel.namelist())
        about = f"smoothcert-{smoothcert.__version__}.dist-info"
        assert wheel.read(f"{about}/licenses/LICENSE") == (installed.ROOT / "LICENSE").read_bytes()
        assert "License-Expression: Apache-2.0" in wheel.read(f"{about}/METADATA").decode()
    assert {name for name in held if not name.startswith(about)} == sources
    for kind in ("zoo/zoo.toml", ".safetensors", ".jinja", "recipes/cohen.toml", "static/index.html", "py.typed"):
        assert any(name.endswith(kind) for name in sources), kind


def test_the_sdist_holds_what_builds_the_wheel_and_no_tests(built):
    with tarfile.open(built[0]) as sdist:
        top = {name.split("/")[1] for name in sdist.getnames() if "/" in name}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "constraints.txt", "smoothcert"} <= top
    assert "tests" not in top


def test_the_wheel_names_its_version_and_its_zoo_from_another_folder(programs, tmp_path):
    where = installed.run(["python", "-c", "import smoothcert; print(smoothcert.__file__)"], tmp_path, programs)
    assert where.stdout.startswith(str(programs.parent)), where.stdout + where.stderr
    version = installed.run(["smoothcert", "--version"], tmp_path, programs)
    assert version.stdout == f"smoothcert {smoothcert.__version__}\n"
    zoo = installed.run(["smoothcert", "zoo"], tmp_path, programs)
    assert zoo.returncode == 0 and "cifar10-resnet8-consistency" in zoo.stdout, zoo.stderr


@pytest.mark.study  # two minutes of two quiet cores; `make release-check` runs it
def test_the_demo_of_the_wheel_writes_its_report_into_an_empty_folder(programs, tmp_path):
    done = installed.run(["smoothcert", "demo"], tmp_path, programs)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "<svg" in (tmp_path / "smoothcert-demo" / "report.html").read_text()
