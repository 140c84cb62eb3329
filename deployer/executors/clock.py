"""Judges this machine's clock by that of a server; pure."""

from __future__ import annotations

from deployer.findings import Finding, right, warning
from deployer.text import format_seconds

# A server writes its time in whole seconds. Tokens and signed addresses bear a few minutes, and
# the ages of pods and runs are told by both clocks.
MOST_SKEW_SECONDS = 60.0


def judge_clock(subject: str, ahead_seconds: float) -> Finding:
    """Say whether a server's clock, so many seconds ahead of ours, is near enough."""
    if abs(ahead_seconds) <= MOST_SKEW_SECONDS:
        return right("clock", subject, "its clock is this machine's")
    way = "ahead of" if ahead_seconds > 0 else "behind"
    said = f"its clock is {format_seconds(abs(ahead_seconds))} {way} this machine's"
    return warning("clock", subject, said, "sudo timedatectl set-ntp true")
