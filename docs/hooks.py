"""Examples in docstrings (lines that begin with >>>) as code; Markdown would take the signs for nested quotes."""

from __future__ import annotations

import re
from typing import Any

QUOTED = re.compile(r"(?:<blockquote>\s*){3}<p>(.*?)</p>(?:\s*</blockquote>){3}", re.DOTALL)


def on_page_content(html: str, **_: Any) -> str:
    """Called by mkdocs for the HTML of every page."""
    return QUOTED.sub(lambda found: f"<pre><code>{found[1]}</code></pre>", html)
