"""What is right, wrong or unknown before agents start, and what to type or edit about it.

A `Check` is asked by `up`, which raises what it says, and by `doctor`, which lists it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

from deployer.errors import DeployerError, KubeError

THREADS = 12  # questions under way at a time
FORBIDDEN = 403


class Verdict(StrEnum):
    """What came of a question. `unknown`: it could not be told, or passes with time."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One answer. `code` is stable, `subject` is what was looked at.

    `remedy` is a command, or an edit such as `kubernetes: {gpu: 1} in deployer.yaml`.
    """

    code: str
    subject: str
    verdict: Verdict
    sentence: str
    remedy: str = ""

    @property
    def wrong(self) -> bool:
        """Tell whether `up` would fail, or its agents would never start."""
        return self.verdict is Verdict.WRONG


def right(code: str, subject: str, sentence: str) -> Finding:
    """Return the finding that all is well."""
    return Finding(code, subject, Verdict.RIGHT, sentence)


def wrong(code: str, subject: str, sentence: str, remedy: str = "") -> Finding:
    """Return the finding that something has to be done."""
    return Finding(code, subject, Verdict.WRONG, sentence, remedy)


def unknown(code: str, subject: str, sentence: str, remedy: str = "") -> Finding:
    """Return the finding that it cannot be told, or that it depends on others."""
    return Finding(code, subject, Verdict.UNKNOWN, sentence, remedy)


@dataclass(frozen=True)
class Question:
    """Something to find out; what `ask` raises becomes a finding of this code and subject."""

    code: str
    subject: str
    ask: Callable[[], Iterable[Finding]]

    def examine(self) -> tuple[Finding, ...]:
        """Return what was found."""
        try:
            return tuple(self.ask())
        except DeployerError as error:
            return tuple(_judge(self, one) for one in error.parts)


@dataclass(frozen=True)
class Check:
    """What keeps agents from starting: `ask` raises it. `fine` says that there is nothing."""

    code: str
    subject: str
    ask: Callable[[], object]
    fine: str

    def question(self) -> Question:
        """Return the same as a question."""

        def ask() -> Iterable[Finding]:
            self.ask()
            return (right(self.code, self.subject, self.fine),)

        return Question(self.code, self.subject, ask)


def run_checks(checks: Iterable[Check]) -> None:
    """Ask one after another; raises what the first one says that finds anything."""
    for check in checks:
        check.ask()


def examine_all(questions: Sequence[Question]) -> tuple[Finding, ...]:
    """Ask concurrently; return what was found in the order of the questions."""
    if not questions:
        return ()
    with ThreadPoolExecutor(max_workers=min(THREADS, len(questions))) as pool:
        return tuple(one for found in pool.map(Question.examine, questions) for one in found)


def _judge(question: Question, error: DeployerError) -> Finding:
    """Return an error as a finding: what one may not look at is unknown, all else is wrong."""
    forbidden = isinstance(error, KubeError) and error.status == FORBIDDEN
    build = unknown if forbidden else wrong
    return build(question.code, question.subject, error.message, error.hint)
