"""Logs: one JSON line an event, on stderr. Never a key, never an input."""

from __future__ import annotations

import io
import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

log = logging.getLogger("smoothcert.server")


class LineFormatter(logging.Formatter):
    """An event as one line of JSON; what a call passes as `extra={"fields": …}` stands in it by name."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, what happened, and its fields; of an exception its kind, its words and where it was raised."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage().strip(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and (error := record.exc_info[1]) is not None:
            places = traceback.extract_tb(error.__traceback__)
            line["error"] = f"{type(error).__name__}: {error}"
            line["where"] = [f"{Path(place.filename).name}:{place.lineno} {place.name}" for place in places[-8:]]
        return json.dumps(line, default=str)


def configure(level: int = logging.INFO) -> None:
    """Send this service's events to stderr, and of uvicorn's own only what is wrong."""
    # Under --quiet stderr is kept in memory and thrown away at the end, which a service may not see for months.
    quiet = isinstance(sys.stderr, io.StringIO)
    handler: logging.Handler = logging.NullHandler() if quiet else logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    for name, least in (("smoothcert.server", level), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(least)
        logger.propagate = False
