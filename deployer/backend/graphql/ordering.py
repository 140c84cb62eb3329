"""Orders, and pages that go on where the last one ended, whatever comes or goes meanwhile."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from deployer.backend.graphql.fields import MISSING, Fields
from deployer.backend.parsing import parse_json
from deployer.backend.refusal import Refusal
from deployer.sweeps.metrics import WRITTEN

DEFAULT_ORDER = "+created_at"  # W&B's own
DEFAULT_PAGE = 50

# Known or not, number or text, the number, the text, the row.
Place = tuple[int, int, float, str, int]


class Row(Protocol):
    """What can be ordered."""

    @property
    def id(self) -> int:
        """Return the row's number."""


R = TypeVar("R", bound=Row)


@dataclass(frozen=True)
class Order(Generic[R]):
    """`+key` or `-key`; rows without the key, and NaN, go last in both directions."""

    read: Callable[[R], Any]
    descending: bool

    def place(self, row: R) -> Place:
        """Return where a row stands; two rows never stand in the same place."""
        sortable = _sortable(self.read(row))
        known = sortable is not None
        return (int(known is self.descending), *(sortable or (0, 0.0, "")), row.id)


def parse_order(text: str | None, fields: Fields[R]) -> Order[R]:
    """Return an order by W&B's text; refuse an unknown key with 400."""
    key = (text or DEFAULT_ORDER).strip()
    return Order(fields.reader(key.lstrip("+-")), key.startswith("-"))


def by_row(descending: bool = False) -> Order[Any]:
    """Return the order in which rows were made, or newest first."""
    return Order(lambda row: row.id, descending)


def by_name() -> Order[Any]:
    """Return the order of rows that have a name."""
    return Order(lambda row: row.name, descending=False)


def ordered_connection(
    rows: Sequence[R],
    order: Order[R],
    after: str | None = None,
    first: int | None = None,
    default_page: int | None = DEFAULT_PAGE,
) -> dict[str, Any]:
    """Return one page; a cursor is its row's place, so added and deleted rows shift nothing."""
    placed = sorted(((order.place(row), row) for row in rows), key=_place, reverse=order.descending)
    if after:
        mark = decode_place(after)
        rest = [p for p in placed if (p[0] < mark if order.descending else p[0] > mark)]
    else:
        rest = placed
    size = first if first is not None else default_page
    page = rest if size is None else rest[: max(size, 0)]
    edges = [{"node": row, "cursor": encode_place(place)} for place, row in page]
    return {
        "edges": edges,
        "page_info": {
            "has_next_page": len(page) < len(rest),
            "end_cursor": edges[-1]["cursor"] if edges else after,
        },
        "total_count": len(rows),
    }


def _place(pair: tuple[Place, Any]) -> Place:
    return pair[0]


def _sortable(value: Any) -> tuple[int, float, str] | None:
    if isinstance(value, dict):  # a metric with `define_metric(summary=…)`, such as {"min": 0.1}
        value = next(iter(value.values()), None)
    if isinstance(value, str):
        value = WRITTEN.get(value, value)
    if value is None or value is MISSING or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, int | float):
        return (0, float(value), "")
    return (1, 0.0, str(value))


def encode_place(place: Place) -> str:
    """Return the cursor of a row's place."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def decode_place(cursor: str) -> Place:
    """Return the place that a cursor stands for; refuse with 400 what is none."""
    try:
        place = parse_json(base64.urlsafe_b64decode(cursor).decode(), "the cursor")
        known, kind, number, text, row_id = place
        if not abs(int(row_id)) < 2**63:
            raise ValueError
        return (int(known), int(kind), float(number), str(text), int(row_id))
    except (ValueError, TypeError, OverflowError, Refusal) as error:
        raise Refusal(400, f"the cursor {cursor!r} is not one of ours") from error
