"""The words of a report that neither the page nor the terminal has; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from deployer.sweeps.results import Results, Row, describe_attempt
from deployer.text import format_count

GOOD_CAUSES = ("finished", "delivered", "stopped")


def list_failures(results: Results, last_words: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the runs that failed, with how they ended, what they ran with and printed last."""
    return [
        {
            "run": row.run_id,
            "title": row.title,
            "state": row.state,
            "cause": describe_cause(row),
            "said": last_words.get(row.run_id, ""),
            "attempts": max(1, len(row.attempts)),
            "parameters": row.parameters,
        }
        for row in results.failures
    ]


def describe_cause(row: Row) -> str:
    """Say how a run ended, as far as its server knows."""
    last = row.attempts[-1] if row.attempts else None
    if last and last.cause:
        return describe_attempt(last.cause, last.exit_code)
    return f"exit code {row.exit_code}" if row.exit_code is not None else row.state


def count_causes(rows: Sequence[Row]) -> Mapping[str, int]:
    """Count the attempts that did not finish by how they ended, the most frequent first."""
    counted = Counter(
        describe_attempt(attempt.cause, attempt.exit_code)
        for row in rows
        for attempt in row.attempts
        if attempt.cause and attempt.cause not in GOOD_CAUSES
    )
    return dict(counted.most_common())


def describe_curves(shown: int, runs: int, metric: str | None) -> str:
    """Say of how many runs there are curves."""
    return f"curves of {metric} of {shown} of {format_count(runs, 'run')}" if metric else ""
