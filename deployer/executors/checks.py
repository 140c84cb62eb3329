"""Checks before agents start: `up` raises their errors, `doctor` lists their findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from deployer.errors import FORBIDDEN, DeployerError
from deployer.findings import Finding, right, unknown, wrong

THREADS = 12  # questions under way at a time


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
            return tuple(self._judge(one) for one in error.findings if one.is_error)

    def _judge(self, found: Finding) -> Finding:
        """Turn an error's finding into this check's; a missing right makes it unknown."""
        build = unknown if found.code == FORBIDDEN else wrong
        return build(self.code, self.subject, found.text, found.fix)


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
