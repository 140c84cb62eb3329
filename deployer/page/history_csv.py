"""The numbers of a run's history as CSV; pure."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from io import StringIO
from typing import Any

from deployer.page.curves import list_logged

W_AND_B = ("_step", "_runtime", "_timestamp")
COMPUTED = ("=", "+", "-", "@", "\t", "\r")  # by a spreadsheet, if a text begins so


def write_history(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a line for each row and a column for each number that was logged, by dotted names.

    W&B's own step, seconds since the start and time (epoch seconds) come first, if they are there.
    """
    logged = [(row, dict(list_logged(row))) for row in rows]
    first = [name for name in W_AND_B if any(name in row for row, _ in logged)]
    names = sorted({name for _, numbers in logged for name in numbers})
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*first, *(f"'{n}" if n.startswith(COMPUTED) else n for n in names)])
    for row, numbers in logged:
        if numbers:
            cells = [row.get(name) for name in first] + [numbers.get(name) for name in names]
            writer.writerow(cells)
    return text.getvalue()
