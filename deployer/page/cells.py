"""What each run contributes to a sweep's table, kept as long as the run is the same.

Of ten thousand runs, one has changed since the last document: the others are not written anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.model import Run
from deployer.page.strict_json import Encoded, encode_value
from deployer.page.summary import flatten_summary
from deployer.sweeps.metrics import WRITTEN


@dataclass
class _Known:
    info: Run
    numbers: Mapping[str, float]
    columns: tuple[Sequence[str], Sequence[str]] | None = None
    text: bytes = b""


class Cells:
    """The numbers of runs' summaries, and their encoded parameters and metrics, by the run's id."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def numbers(self, run: Run) -> Mapping[str, float]:
        """Return the numbers that a run logged last."""
        known = self._known.get(run.run_id)
        if known is None or known.info is not run:
            known = self._known[run.run_id] = _Known(run, list_numbers(run.summary))
        return known.numbers

    def encode(
        self,
        head: Sequence[Any],
        parameters: Mapping[str, Any],
        columns: Sequence[str],
        metrics: Sequence[str],
    ) -> bytes:
        """Return the array of a run, whose id is first in `head`, behind its `numbers`."""
        known = self._known[head[0]]
        if known.columns != (columns, metrics):
            known.columns = (columns, metrics)
            cells = [pick(parameters, columns), pick(known.numbers, metrics)]
            known.text = encode_value(cells)[1:-1]
        return encode_value(head)[:-1] + b"," + known.text + b"]"


def join_rows(rows: Sequence[bytes]) -> Encoded:
    """Return encoded arrays as one array."""
    return Encoded(b"[" + b",".join(rows) + b"]")


def pick(values: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """Return the values of some names in their order, None for what is missing."""
    return [values.get(name) for name in names]


def list_numbers(summary: Mapping[str, Any]) -> dict[str, float]:
    """Return a summary's numbers by dotted names; NaN is one, which SDKs send as text."""
    nested = any(isinstance(value, Mapping) for value in summary.values())
    flat = flatten_summary(summary) if nested else summary
    return {
        name: number
        for name, value in flat.items()
        if (number := _number(value)) is not None and name[:1] != "_"
    }


def _number(value: Any) -> float | None:
    kind = type(value)
    if kind is float or kind is int:  # never a bool
        return value  # type: ignore[no-any-return]
    return WRITTEN.get(value) if kind is str else None
