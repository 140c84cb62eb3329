"""A finding: the result of one check, with its severity and a fix.

Checks of settings, sweep files, scripts, clusters and clouds return findings; errors carry them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# Whether waiting helps; None if it is unknown.
TRANSIENT, PERMANENT = True, False
WORDS: dict[bool | None, str] = {
    TRANSIENT: " (passes with time)",
    PERMANENT: " (never passes)",
    None: "",
}
EDIT = "in deployer.yaml"


class Severity(StrEnum):
    """How bad a finding is.

    An `error` stops `up`. A `warning` is what we infer: `up` goes on. `unknown` is what could
    not be checked, or depends on others.
    """

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """The result of one check. `code` is stable; `subject` names the file, object or server.

    `fix` is a command, or an edit such as `kubernetes: {gpu: 1} in deployer.yaml`. `transient` is
    None if it is unknown whether waiting helps.
    """

    code: str
    subject: str
    message: str
    fix: str = ""
    severity: Severity = Severity.ERROR
    transient: bool | None = None

    @property
    def is_error(self) -> bool:
        """Return True if nothing can continue before it is fixed."""
        return self.severity is Severity.ERROR

    @property
    def is_permanent(self) -> bool:
        """Return True if waiting does not help."""
        return self.transient is False

    @property
    def text(self) -> str:
        """Return `SUBJECT: MESSAGE`."""
        return f"{self.subject}: {self.message}" if self.subject else self.message

    @property
    def line(self) -> str:
        """Return what a pod waits for in one line: `MESSAGE (passes with time): FIX`."""
        fix = f": {self.fix}" if self.fix else ""
        return f"{self.message}{WORDS[self.transient]}{fix}"


def right(code: str, subject: str, message: str) -> Finding:
    """Return a finding of severity `ok`."""
    return Finding(code, subject, message, severity=Severity.OK)


def wrong(code: str, subject: str, message: str, fix: str = "") -> Finding:
    """Return a finding of severity `error`."""
    return Finding(code, subject, message, fix)


def warning(code: str, subject: str, message: str, fix: str = "") -> Finding:
    """Return a finding of severity `warning`."""
    return Finding(code, subject, message, fix, Severity.WARNING)


def unknown(code: str, subject: str, message: str, fix: str = "") -> Finding:
    """Return a finding of severity `unknown`."""
    return Finding(code, subject, message, fix, Severity.UNKNOWN)


def edit(section: str, setting: str) -> str:
    """Return the fix that is an edit of deployer.yaml."""
    return f"{section}: {{{setting}}} {EDIT}"
