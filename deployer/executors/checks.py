"""Checks before agents start: `up` raises what they refuse, `doctor` lists what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from deployer.errors import FORBIDDEN, DeployerError
from deployer.findings import Finding, right, unknown, wrong

THREADS = 12  # questions under way at a time


@dataclass(frozen=True)
class Check:
    """Something to find out: `ask` returns findings, or raises what keeps agents from starting.

    The doctor's finding of such an error has this `code` and `subject`; if nothing was found, it
    says `fine`.
    """

    code: str
    subject: str
    ask: Callable[[], Iterable[Finding] | None]
    fine: str = ""

    def examine(self) -> tuple[Finding, ...]:
        """Return what was found."""
        try:
            found = tuple(self.ask() or ())
        except DeployerError as error:
            return tuple(self._judge(one) for one in error.findings if one.is_error)
        if not found and self.fine:
            return (right(self.code, self.subject, self.fine),)
        return found

    def _judge(self, found: Finding) -> Finding:
        """Turn an error's finding into this check's; a missing right makes it unknown."""
        build = unknown if found.code == FORBIDDEN else wrong
        return build(self.code, self.subject, found.text, found.fix)


def run_checks(checks: Iterable[Check]) -> None:
    """Ask one after another; raises what the first one says that refuses anything."""
    for check in checks:
        tuple(check.ask() or ())


def examine_all(checks: Sequence[Check]) -> tuple[Finding, ...]:
    """Ask concurrently; return what was found in the order of the checks."""
    if not checks:
        return ()
    with ThreadPoolExecutor(max_workers=min(THREADS, len(checks))) as pool:
        return tuple(one for found in pool.map(Check.examine, checks) for one in found)
