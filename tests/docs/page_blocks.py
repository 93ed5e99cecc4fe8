"""The code blocks of a Markdown page, in order.

What a block's first line says decides what happens to it:

    ```python                          executed; names live on to the next block of the page
    ```python title="folder/file.py"   written to that file, beside the earlier ones of the page
    ```bash                            every command is carried out, in the page's own folder
    … title="not run: why"             shown only; its commands are parsed, its Python compiled
    ``` (no language)                  shown only; its lines that begin with `smoothcert` are parsed
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

OPENING = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>.*)$")
TITLE = re.compile(r'title="([^"]*)"')
NOT_RUN = "not run: "


class Block(NamedTuple):
    language: str
    title: str
    body: str
    line: int  # of the page, where the body begins

    @property
    def shown(self) -> bool:
        """Whether the block is for reading only."""
        return self.title.startswith(NOT_RUN) or self.language not in ("python", "bash")

    @property
    def file(self) -> str | None:
        """The file that this block is the content of."""
        return self.title if self.title and not self.shown else None


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page."""
    found, opening, start = [], None, 0
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines):
        if opening is None:
            opening, start = OPENING.match(line), number + 1
        elif line.strip() == opening["fence"]:
            info, body = opening["info"].strip(), "\n".join(lines[start:number])
            title = TITLE.search(info)
            language = re.split(r"[\s{]", info, maxsplit=1)[0]
            found.append(Block(language, title[1] if title else "", textwrap.dedent(body) + "\n", start + 1))
            opening = None
    if opening is not None:
        raise ValueError(f"{page}:{start}: a block that is never closed")
    return found


def commands(block: Block) -> list[tuple[int, str]]:
    """The command lines of a block with their line numbers; lines that end in a backslash go on."""
    found: list[tuple[int, str]] = []
    going_on = False
    for number, line in enumerate(block.body.splitlines(), start=block.line):
        text = line.rstrip()
        if going_on:
            found[-1] = (found[-1][0], found[-1][1].removesuffix("\\") + text)
        elif text and not text.startswith("#"):
            found.append((number, text))
        going_on = text.endswith("\\")
    return found
