"""Tables as kubectl's: columns as wide as they must be; texts that do not fit are cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from deployer.text import format_value, to_line

SHORT_TEXT_WIDTH = 12  # what is left of a text in a narrow terminal: a run's id is that long
GAP = "  "
ELLIPSIS = "…"
Piece = tuple[str, str]  # a text, and its style on a terminal


@dataclass(frozen=True)
class Styled:
    """A word in a cell, which is never cut, and its colour on a terminal."""

    text: str
    style: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Table:
    """Rows for people, or for CSV; people get `empty` on stderr where there are none."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    empty: str = ""

    @property
    def least_width(self) -> int:
        """The width below which a line would lose digits or whole columns."""
        return sum(one.least for one in self._columns) + len(GAP) * (len(self._columns) - 1)

    def lay_out(self, width: int | None = None) -> Iterator[list[Piece]]:
        """Yield each line; numbers are set to the right, texts are cut to fit into `width`."""
        spare = width - self.least_width if width else None
        widths = []
        for one in self._columns:
            more = one.widest - one.least
            given = more if spare is None else max(0, min(more, spare))
            spare = None if spare is None else spare - given
            widths.append(one.least + given)
        for number in range(len(self.rows) + 1):
            line: list[Piece] = []
            for one, least in zip(self._columns, widths, strict=True):
                text, style = one.cells[number]
                line += [(_fit(text, least, one.is_right), style), (GAP, "")]
            yield line[:-1]

    @cached_property
    def _columns(self) -> list[_Column]:
        return [
            _build_column(name, [row[index] for row in self.rows], names_row=index == 0)
            for index, name in enumerate(self.columns)
        ]


@dataclass(frozen=True)
class _Column:
    """The head and the cells of a column, and how wide it must be."""

    cells: Sequence[Piece]
    is_right: bool
    widest: int
    least: int


def _build_column(name: str, values: Sequence[object], *, names_row: bool) -> _Column:
    """Return a column; numbers, styled words and what names the row are never cut."""
    from rich.cells import cell_len  # 10 ms, for a command that shows a table

    known = [value for value in values if value is not None]
    numeric = bool(known) and all(isinstance(value, int | float) for value in known)
    styled = bool(known) and all(isinstance(value, Styled) for value in known)
    whole = names_row or numeric or styled
    styles = [value.style if isinstance(value, Styled) else "" for value in values]
    cells = [(to_line(name), "bold"), *zip(map(format_value, values), styles, strict=True)]
    widest = max(cell_len(text) for text, _ in cells)
    return _Column(cells, numeric, widest, widest if whole else min(widest, SHORT_TEXT_WIDTH))


def _fit(text: str, width: int, is_right: bool) -> str:
    from rich.cells import cell_len, set_cell_size

    missing = width - cell_len(text)
    if missing < 0:
        return set_cell_size(text, width - 1) + ELLIPSIS
    return " " * missing + text if is_right else text + " " * missing


def without_empty_columns(
    columns: Sequence[str], rows: Sequence[Sequence[object]]
) -> tuple[list[str], list[list[object]]]:
    """Drop the columns that would show nothing: this machine has no nodes, a laptop no GPUs."""
    kept = [n for n in range(len(columns)) if any(row[n] not in ("", None) for row in rows)]
    return [columns[n] for n in kept], [[row[n] for n in kept] for row in rows]
