"""A run as the search sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Runs whose outcome counts; those that ended without a good one count as the worst seen.
ENDED = ("finished", "failed", "crashed", "killed")


@dataclass(frozen=True)
class SearchRun:
    """A run's assignment and outcome.

    `arguments` are the values as they were assigned, {top name: value or nested mapping};
    `state` is W&B's word; `value` is the metric, None if there is none, perhaps nan or infinite.
    """

    arguments: Mapping[str, Any]
    state: str
    value: float | None = None

    @property
    def ended(self) -> bool:
        """Tell whether the outcome is known."""
        return self.state in ENDED
