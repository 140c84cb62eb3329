"""The ranking as a chart: where each run's metric lies between the lowest and the highest."""

from __future__ import annotations

import math
from collections.abc import Sequence

from deployer.analysis.moments import place_between
from deployer.cli.output.render import Styled
from deployer.config.redaction import redact
from deployer.sweeps.results import Results
from deployer.text import format_parameter, format_value

WIDTH, NARROW = 40, 24  # characters of the axis
DOT = "\N{BLACK CIRCLE}"


def build_chart(
    results: Results, names: Sequence[str], width: int = WIDTH
) -> tuple[list[str], list[list[object]]]:
    """Return columns and rows: rank, run, metric, its place on the axis, parameters.

    The axis goes from the lowest value to the highest, whichever is the better one.
    """
    valued = [(row, row.value) for row in results.rows if row.value is not None]
    finite = [value for _, value in valued if math.isfinite(value)] or [0.0]
    least, most = min(finite), max(finite)
    columns = ["RANK", "RUN", results.metric or "value", _build_axis(least, most, width), *names]
    rows: list[list[object]] = []
    for row, value in valued:
        parameters = redact(row.parameters)
        cells = [format_parameter(parameters[n]) if n in parameters else "" for n in names]
        rows.append([row.rank, row.run_id, value, _place(value, least, most, width), *cells])
    return columns, rows


def _build_axis(least: float, most: float, width: int) -> str:
    ends = (format_value(least), format_value(most))
    return ends[0] + ends[1].rjust(width - len(ends[0]))


def _place(value: float, least: float, most: float, width: int) -> Styled:
    if not math.isfinite(value):
        return Styled("")
    share = place_between(value, least, most)
    return Styled("\N{MIDDLE DOT}" * round(share * (width - 1)) + DOT)
