"""What the doctor has found, one line each, the remedy below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from deployer.cli.output.render import show
from deployer.executors.findings import Finding, Verdict

SIGNS = {Verdict.RIGHT: "✓", Verdict.WRONG: "✗", Verdict.UNKNOWN: "?"}


def show_findings(findings: Sequence[Finding]) -> None:
    """Put the findings on stdout, then how many there are of each kind."""
    for one in _join(findings):
        show(f"{SIGNS[one.verdict]} {one.subject}: {one.sentence}")
        if one.remedy and one.verdict is not Verdict.RIGHT:
            show(f"    {one.remedy}")
    show(summarise(findings))


def _join(findings: Sequence[Finding]) -> list[Finding]:
    """Put what is right with one thing in one line."""
    joined: list[Finding] = []
    for one in findings:
        last = joined[-1] if joined else one
        both = {last.verdict, one.verdict} == {Verdict.RIGHT} and last.subject == one.subject
        if joined and both:
            joined[-1] = replace(last, sentence=f"{last.sentence}; {one.sentence}")
        else:
            joined.append(one)
    return joined


def summarise(findings: Sequence[Finding]) -> str:
    """Return the last line: whether agents can start, as far as it can be told."""
    counts = Counter(one.verdict for one in findings)
    told = f"{counts[Verdict.RIGHT]} right, {counts[Verdict.WRONG]} wrong"
    return f"{told}, {counts[Verdict.UNKNOWN]} unknown"
