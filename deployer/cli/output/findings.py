"""What the doctor has found: a line each with the fix below it, or JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from deployer.cli.output.render import show
from deployer.findings import Finding, Severity

SIGNS = {Severity.OK: "✓", Severity.ERROR: "✗", Severity.WARNING: "!", Severity.UNKNOWN: "?"}
VERDICTS = {
    Severity.OK: "right",
    Severity.ERROR: "wrong",
    Severity.WARNING: "doubtful",
    Severity.UNKNOWN: "unknown",
}


def show_findings(findings: Sequence[Finding]) -> None:
    """Put the findings on stdout, then how many there are of each kind."""
    for one in _join(findings):
        show(f"{SIGNS[one.severity]} {one.subject}: {one.message}")
        if one.fix and one.severity is not Severity.OK:
            show(f"    {one.fix}")
    show(summarise(findings))


def build_findings(findings: Sequence[Finding]) -> list[dict[str, str]]:
    """Return the findings as JSON has them."""
    return [
        {
            "code": one.code,
            "subject": one.subject,
            "verdict": VERDICTS[one.severity],
            "sentence": one.message,
            "remedy": one.fix,
        }
        for one in findings
    ]


def _join(findings: Sequence[Finding]) -> list[Finding]:
    """Put what is right with one thing in one line."""
    joined: list[Finding] = []
    for one in findings:
        last = joined[-1] if joined else one
        both = {last.severity, one.severity} == {Severity.OK} and last.subject == one.subject
        if joined and both:
            joined[-1] = replace(last, message=f"{last.message}; {one.message}")
        else:
            joined.append(one)
    return joined


def summarise(findings: Sequence[Finding]) -> str:
    """Return the last line: whether agents can start, as far as it can be told."""
    counts = Counter(VERDICTS[one.severity] for one in findings)
    shown = [one for one in VERDICTS.values() if one != "doubtful" or counts[one]]
    return ", ".join(f"{counts[one]} {one}" for one in shown)
