"""The reference of commands says what the commands say."""

from __future__ import annotations

import runpy

from page_shell import ROOT


def test_the_reference_is_the_one_that_the_commands_write():
    written = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    assert written == runpy.run_path(str(ROOT / "docs/commands.py"))["page"](), "run: python docs/commands.py"
    assert written.count("\n## ") > 30
