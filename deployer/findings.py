"""What was found out about one thing: whether all is well with it, and what mends it.

Settings, sweep files, scripts, clusters and clouds are all judged by it, and every error carries
what was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad it is. `unknown`: it could not be told, or it depends on others."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One thing that was found. `code` is stable, `subject` is what was looked at.

    `fix` is a command, or an edit such as `kubernetes: {gpu: 1} in deployer.yaml`. `transient` says
    whether it passes by itself; None if nobody knows.
    """

    code: str
    subject: str
    message: str
    fix: str = ""
    severity: Severity = Severity.ERROR
    transient: bool | None = None

    @property
    def is_error(self) -> bool:
        """Tell whether nothing can go on as it is."""
        return self.severity is Severity.ERROR

    @property
    def text(self) -> str:
        """Return the message with what it is about in front."""
        return f"{self.subject}: {self.message}" if self.subject else self.message


def right(code: str, subject: str, message: str) -> Finding:
    """Return the finding that all is well."""
    return Finding(code, subject, message, severity=Severity.OK)


def wrong(code: str, subject: str, message: str, fix: str = "") -> Finding:
    """Return the finding that something has to be done."""
    return Finding(code, subject, message, fix)


def unknown(code: str, subject: str, message: str, fix: str = "") -> Finding:
    """Return the finding that it cannot be told, or that it depends on others."""
    return Finding(code, subject, message, fix, Severity.UNKNOWN)
