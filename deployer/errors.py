"""All errors shown to users, with their exit codes, and the findings that errors carry.

Anything else that reaches `main()` is a bug and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from http import HTTPStatus
from typing import Self

from deployer.waiting import OWN_VERDICT, PASSING_REASONS, is_passing

# Whether waiting helps; None if unknown.
TRANSIENT, PERMANENT = True, False
WORDS: dict[bool | None, str] = {
    TRANSIENT: " (transient)",
    PERMANENT: " (permanent)",
    None: "",
}
EDIT = "in deployer.yaml"
FORBIDDEN = "forbidden"  # code of findings about missing rights


# A finding: the result of one check, with its severity and a fix. Checks of settings, sweep files,
# scripts, clusters and clouds return findings; errors carry them.


class Severity(StrEnum):
    """How bad a finding is.

    An `error` stops `up`. A `warning` is an inference: `up` continues. `unknown` means that it
    could not be checked, or depends on others.
    """

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"


KeyPath = tuple[str, ...]  # a value in a file: ("parameters", "lr", "values", "[0]")


@dataclass(frozen=True)
class Finding:
    """The result of one check. `code` is stable; `subject` names the file, object or server.

    `fix` is a command, or an edit such as `kubernetes: {gpu: 1} in deployer.yaml`. `transient` is
    None if it is unknown whether waiting helps. `path` leads to a value of the file; `position` is
    its line and column from 1, or zeros for a missing key.
    """

    code: str
    subject: str
    message: str
    fix: str = ""
    severity: Severity = Severity.ERROR
    transient: bool | None = None
    path: KeyPath = ()
    position: tuple[int, int] = (0, 0)

    @property
    def key(self) -> str:
        """The path as shown: `parameters.lr.values[0]`."""
        return ".".join(self.path).replace(".[", "[")

    @property
    def place(self) -> str:
        """The position in a file, such as `sweeps/lr.yaml:12: parameters.lr.min`."""
        file = f"{self.subject}:{self.position[0]}" if self.position[0] else self.subject
        return f"{file}: {self.key}" if self.path else file

    @property
    def is_error(self) -> bool:
        """Return True if nothing can continue before it is fixed."""
        return self.severity is Severity.ERROR

    @property
    def is_permanent(self) -> bool:
        return self.transient is False

    @property
    def text(self) -> str:
        """Return `SUBJECT: MESSAGE`."""
        return f"{self.subject}: {self.message}" if self.subject else self.message

    @property
    def line(self) -> str:
        """The obstacle of a pending pod as one line: `MESSAGE (transient): FIX`."""
        rest = WORDS[self.transient] + (f": {self.fix}" if self.fix else "")
        return f"{self.message.removesuffix('.') if rest else self.message}{rest}"


def right(code: str, subject: str, message: str) -> Finding:
    return Finding(code, subject, message, severity=Severity.OK)


def wrong(code: str, subject: str, message: str, fix: str = "") -> Finding:
    return Finding(code, subject, message, fix)


def warning(code: str, subject: str, message: str, fix: str = "") -> Finding:
    return Finding(code, subject, message, fix, Severity.WARNING)


def unknown(code: str, subject: str, message: str, fix: str = "") -> Finding:
    return Finding(code, subject, message, fix, Severity.UNKNOWN)


def edit(section: str, setting: str) -> str:
    return f"{section}: {{{setting}}} {EDIT}"


class ExitCode(IntEnum):
    """The exit codes of all commands; the only table of them."""

    DONE = 0
    REFUSED = 1
    WRONG_INPUT = 2
    INCOMPLETE = 3
    STILL_GOING = 4
    INTERRUPTED = 130  # the shell's code for Ctrl-C


class DeployerError(Exception):
    """An error with its findings: what failed, and the command or edit that fixes it."""

    exit_code: ExitCode = ExitCode.REFUSED
    code = "error"

    def __init__(self, message: str, hint: str = "", transient: bool | None = None) -> None:
        super().__init__(message)
        self.findings: tuple[Finding, ...] = (
            Finding(self.code, "", message, hint, transient=transient),
        )

    def __str__(self) -> str:
        return self.message

    @property
    def message(self) -> str:
        """The failures with their object or file, one line for each finding."""
        return "\n".join(one.text for one in self.findings if one.is_error)

    @property
    def hint(self) -> str:
        """The fix of the first finding: a command or an edit, empty if unknown."""
        return self.findings[0].fix

    @property
    def passing(self) -> bool:
        return self.findings[0].transient is True

    @classmethod
    def join(cls, errors: Iterable[DeployerError], warnings: Iterable[Finding] = ()) -> Self:
        joined = cls.__new__(cls)
        joined.findings = (*(one for e in errors for one in e.findings), *warnings)
        return joined


class Refusals:
    """Collects refusals while the rest of the work continues; duplicates count once."""

    def __init__(self) -> None:
        self._found: dict[str, DeployerError] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Record an error of the block instead of raising it."""
        try:
            yield
        except DeployerError as error:
            self._found.setdefault(error.message, error)

    def raise_all(self) -> None:
        """Raise the recorded errors, joined."""
        errors = tuple(self._found.values())
        if errors:
            raise errors[0] if len(errors) == 1 else DeployerError.join(errors)


@contextmanager
def collect_refusals() -> Iterator[Refusals]:
    """Yield a collector of refusals; raise the recorded ones after the block."""
    refusals = Refusals()
    with refusals.noted():
        yield refusals
    refusals.raise_all()


class ConfigError(DeployerError):
    """A file or a flag is wrong; nothing was contacted.

    `place` is like `sweeps/lr.yaml: parameters.lr.min`.
    """

    exit_code = ExitCode.WRONG_INPUT
    code = "config"

    def __init__(self, place: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.findings = (Finding(self.code, place, message, hint),)

    @property
    def place(self) -> str:
        """The file and line, or the flag, of the first finding."""
        return self.findings[0].subject


class SweepEnded(ConfigError):
    """The file's sweep has ended; it runs again only if the user says so."""


class ScriptRaised(ConfigError):
    """The trial start of the script has raised an error; it goes on if the user says so."""


class WandbError(DeployerError):
    """A W&B server refused or could not be reached.

    `status` is the HTTP status, 0 if no answer came. Without a status it is our own final verdict.
    """

    code = "wandb"

    def __init__(self, message: str, hint: str = "", status: int = OWN_VERDICT) -> None:
        super().__init__(message, hint, is_passing(status))
        self.status = status


class KubeError(DeployerError):
    """A Kubernetes server refused or could not be reached.

    `status` is the HTTP status, 0 if no answer came. Without a status it is our own final verdict.
    `reason` is Kubernetes' word for it.
    """

    code = "kubernetes"

    def __init__(
        self,
        message: str,
        hint: str = "",
        status: int = OWN_VERDICT,
        reason: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, hint, is_passing(status))
        self.status = status
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds
        if self.forbidden:
            self.findings = (replace(self.findings[0], code=FORBIDDEN),)

    @property
    def forbidden(self) -> bool:
        return self.status == HTTPStatus.FORBIDDEN


class CloudError(DeployerError):
    """Google Cloud refused or could not be reached.

    `reason` is Google's word for it, such as `PERMISSION_DENIED` or `GCE_STOCKOUT`; empty if none.
    """

    code = "cloud"

    def __init__(self, message: str, hint: str = "", reason: str = "") -> None:
        super().__init__(message, hint, reason in PASSING_REASONS)
        self.reason = reason


class DataError(DeployerError):
    """Data cannot be listed, read, copied, checked or unpacked where it is.

    `passing` after a broken connection. `missing` if the location does not exist yet.
    """

    code = "data"

    def __init__(
        self, message: str, hint: str = "", passing: bool = False, missing: bool = False
    ) -> None:
        super().__init__(message, hint, passing)
        self.missing = missing


class ImageError(DeployerError):
    """An image cannot be built, pushed, saved or loaded; the tool's own words are kept.

    `status` is the HTTP status of a registry's answer, 0 if none came.
    """

    code = "image"

    def __init__(self, message: str, hint: str = "", status: int = 0) -> None:
        super().__init__(message, hint)
        self.status = status


class BackendError(DeployerError):
    """The embedded backend cannot start, or does not listen at the address in its data folder."""

    code = "backend"


class BackendStopped(BackendError):
    """The user stopped the embedded backend; waiting commands do not restart it."""


class AgentError(DeployerError):
    """An agent cannot be started, found or stopped.

    `passing`: a retry may succeed once the state folder is writable again.
    """

    code = "agent"

    def __init__(self, message: str, hint: str = "", passing: bool = False) -> None:
        super().__init__(message, hint, passing)


class StartFailed(DeployerError):
    """No agent of a sweep has started, and none will, or none in time; they are ended."""

    exit_code = ExitCode.INCOMPLETE
    code = "start-failed"


class SweepFailed(DeployerError):
    """The sweep ended without every configuration finished."""

    exit_code = ExitCode.INCOMPLETE
    code = "sweep-failed"


class WatchTimeout(DeployerError):
    """The time to watch is over and the sweep still goes on; watching again is safe."""

    exit_code = ExitCode.STILL_GOING
    code = "watch-timeout"
