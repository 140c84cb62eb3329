"""The library's log records on stderr, by one handler, and in a file with --log-file.

For requests it logs method, address and status: no headers, no bodies, no query, and so no key.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections import deque
from io import TextIOWrapper
from pathlib import Path

from deployer.errors import ConfigError
from deployer.text import to_lines
from deployer.waiting import COMMAND

LOG = logging.getLogger("deployer")
REQUESTS = logging.getLogger("urllib3.connectionpool")  # the client of all our HTTP requests
BACKEND = "deployer.backend"  # a server has its own log: backend/server/foreground.py
ALWAYS = logging.ERROR  # shown even with --quiet: errors, hints, questions
LOG_FILE = "--log-file"
MOST_UNSAID = 1000  # lines
QUERY = re.compile(r"\?[^\s\"]+")


def build_text(record: logging.LogRecord) -> str:
    sign = "warning: " if record.levelno == logging.WARNING else ""
    return sign + to_lines(record.getMessage())


class _Redacting(logging.Formatter):
    """Removes secrets and the query strings of URLs."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        from deployer.config.redaction import redact_text  # compiles 15 expressions

        record.message = build_text(record)
        return redact_text(QUERY.sub("?…", super().formatMessage(record)))


class _Shown(logging.Handler):
    """Writes to the current stderr, which a live view replaces."""

    def emit(self, record: logging.LogRecord) -> None:
        COMMAND.printed = True
        sys.stderr.write(f"{build_text(record)}\n")
        sys.stderr.flush()


def is_reported(record: logging.LogRecord) -> bool:
    return not record.name.startswith(BACKEND)


class _Unsaid(logging.Handler):
    """Keeps the messages that --quiet hides, to show them before a question."""

    def __init__(self) -> None:
        super().__init__()
        self.records = deque[logging.LogRecord](maxlen=MOST_UNSAID)

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < ALWAYS:
            self.records.append(record)

    def show(self) -> None:
        while self.records:
            SHOWN.emit(self.records.popleft())


SHOWN, UNSAID = _Shown(), _Unsaid()
UNSAID.addFilter(is_reported)
SHOWN.addFilter(is_reported)
LOG.addHandler(SHOWN)
LOG.setLevel(logging.INFO)


def open_log(quiet: bool, verbose: bool, file: Path | None) -> None:
    """Set the log level, and the file for the full log; raises ConfigError.

    The file is appended to, and readable only by its owner.
    """
    if quiet and verbose:
        raise ConfigError("--quiet", "is the opposite of --verbose", "remove one of them")
    SHOWN.setLevel(ALWAYS if quiet else logging.NOTSET)
    if quiet:
        LOG.addHandler(UNSAID)
    if verbose:
        _listen(REQUESTS, logging.StreamHandler(sys.stderr), "request: %(message)s")
    if file is not None:
        handler = logging.StreamHandler(_open(file))
        handler.addFilter(is_reported)
        for logger in (LOG, REQUESTS):
            _listen(logger, handler, "%(asctime)s %(name)s %(message)s")


def close_log() -> None:
    SHOWN.setLevel(logging.NOTSET)
    LOG.removeHandler(UNSAID)
    UNSAID.records.clear()
    for logger in (LOG, REQUESTS):
        for handler in list(logger.handlers):
            if isinstance(handler, logging.StreamHandler):
                logger.removeHandler(handler)
                if handler.stream is not sys.stderr:
                    handler.stream.close()
    REQUESTS.setLevel(logging.NOTSET)


def _listen(logger: logging.Logger, handler: logging.Handler, form: str) -> None:
    handler.setFormatter(_Redacting(form))
    logger.addHandler(handler)
    if logger is REQUESTS:
        logger.setLevel(logging.DEBUG)


def _open(file: Path) -> TextIOWrapper:
    try:
        number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        said = f"{file} cannot be written: {(error.strerror or str(error)).lower()}"
        raise ConfigError(LOG_FILE, said, "name another file") from error
    return open(number, "a", encoding="utf-8", errors="replace")
