"""The ranking as a chart: where each run's metric lies between the lowest and the highest."""

from __future__ import annotations

import math

from deployer.analysis.moments import place_between
from deployer.sweeps.results import Results
from deployer.sweeps.wording import MOST_NAMED, list_varying
from deployer.text import format_parameter, format_value

WIDTH = 40  # characters of the axis
DOT = "\N{BLACK CIRCLE}"


def build_chart(results: Results) -> tuple[list[str], list[list[object]]]:
    """Return columns and rows: rank, run, metric, its place on the axis, what differs between runs.

    The axis goes from the lowest value to the highest, whichever is the better one.
    """
    valued = [(row, row.value) for row in results.rows if row.value is not None]
    finite = [value for _, value in valued if math.isfinite(value)] or [0.0]
    least, most = min(finite), max(finite)
    names = list_varying([row.parameters for row in results.rows])[:MOST_NAMED]
    columns = ["RANK", "RUN", results.metric or "value", _build_axis(least, most), *names]
    rows: list[list[object]] = []
    for row, value in valued:
        cells = [format_parameter(row.parameters[n]) if n in row.parameters else "" for n in names]
        rows.append([row.rank, row.run_id, value, _place(value, least, most), *cells])
    return columns, rows


def _build_axis(least: float, most: float) -> str:
    ends = (format_value(least), format_value(most))
    return ends[0] + ends[1].rjust(WIDTH - len(ends[0]))


def _place(value: float, least: float, most: float) -> str:
    if not math.isfinite(value):
        return ""
    share = place_between(value, least, most)
    return "\N{MIDDLE DOT}" * round(share * (WIDTH - 1)) + DOT
