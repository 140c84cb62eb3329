"""The log of a server: as text, or as lines of JSON for log collectors."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

TEXT = "%(asctime)s %(levelname)s %(message)s"
SAME_SECONDS = 10.0
MOST_KNOWN = 1000


class JsonLines(logging.Formatter):
    """Writes a record as one line: time, level, logger, message and exception."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


class Seldom(logging.Filter):
    """Passes a repeated message once in ten seconds, with the number of its omitted repeats."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        kind = (said, repr(record.exc_info and record.exc_info[1]))
        begun, left_out = self._known.get(kind, (-SAME_SECONDS, 0))
        if record.created - begun < SAME_SECONDS:
            self._known[kind] = (begun, left_out + 1)
            return False
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        self._known[kind] = (record.created, 0)
        if left_out:
            record.msg, record.args = f"{said} ({left_out} times more since the last line)", ()
        return True


def log_to_stderr(as_json: bool = False, only: bool = False) -> logging.Handler:
    """Log to stderr, and to nothing else with `only`: JSON from level INFO, text from WARNING.

    Returns the handler, which the caller may remove.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if as_json else logging.Formatter(TEXT))
    handler.addFilter(Seldom())
    level = logging.INFO if as_json else logging.WARNING
    handler.setLevel(level)
    logging.basicConfig(level=level, handlers=[handler], force=only)
    return handler
