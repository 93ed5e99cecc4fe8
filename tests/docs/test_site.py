"""The pages build as a site: no dead link, no missing anchor, and nothing that is fetched from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from page_shell import ROOT

FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\bsrc=["']?(?:https?:)?//|<link[^>]*\bhref=["']?(?:https?:)?//"""
)
IMPORTED = re.compile(r"""(?:@import|url\()\s*["']?(?:https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; `make docs` installs what it needs."""
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_there_and_the_reference_has_the_public_list(site):
    import smoothcert

    assert {page.stem for page in (ROOT / "docs").glob("*.md")} <= {page.stem for page in site.glob("*.html")}
    text = (site / "api.html").read_text()
    assert [name for name in smoothcert.__all__ if name not in text] == []
    assert "<blockquote>" not in text  # examples of docstrings are code: docs/hooks.py


def test_nothing_is_fetched_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert pages and [page.name for page in pages if FETCHED.search(page.read_text())] == []
    assert [sheet.name for sheet in site.rglob("*.css") if IMPORTED.search(sheet.read_text())] == []
