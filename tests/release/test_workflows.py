"""The workflows, the hooks and .ci/run ask for the same targets of the Makefile, and the forms ask for the evidence."""

from __future__ import annotations

import re

import installed
import pytest
import yaml

GITHUB = installed.ROOT / ".github"
FORMS = [*GITHUB.rglob("*.yml"), installed.ROOT / ".pre-commit-config.yaml", installed.ROOT / "CITATION.cff"]


def asked(text: str) -> set[str]:
    return set(re.findall(r"^\s*(?:- run: )?make ([\w-]+)", text, re.MULTILINE))


def targets() -> set[str]:
    return set(re.findall(r"^([\w-]+):", (installed.ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_workflow_runs_what_decides_and_more():
    decides = asked((installed.ROOT / ".ci" / "run").read_text())
    workflow = asked((GITHUB / "workflows" / "ci.yml").read_text())
    assert decides == {"test", "test-browser", "docs"} == workflow - {"release-check"}


@pytest.mark.parametrize("workflow", sorted((GITHUB / "workflows").iterdir()), ids=lambda path: path.name)
def test_every_target_that_a_workflow_asks_for_exists(workflow):
    text = workflow.read_text()
    assert asked(text) and asked(text) <= targets()
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}, "more is granted to single jobs"


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.name)
def test_forms_and_settings_are_yaml(form):
    assert yaml.safe_load(form.read_text())


def test_a_report_of_a_fault_brings_its_recipe_and_its_run():
    fields = {part["id"] for part in yaml.safe_load((GITHUB / "ISSUE_TEMPLATE" / "wrong.yml").read_text())["body"]}
    assert {"command", "recipe", "run", "version"} <= fields
    assert "recipe.toml" in (GITHUB / "pull_request_template.md").read_text()


def test_the_citation_repeats_neither_version_nor_licence_wrongly():
    cited = yaml.safe_load((installed.ROOT / "CITATION.cff").read_text())
    assert "version" not in cited and cited["license"] == "Apache-2.0"
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
