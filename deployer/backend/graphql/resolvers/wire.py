"""Turns rows into what W&B's clients expect: ids and pages."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Sequence
from typing import Any, TypeAlias

from graphql import GraphQLResolveInfo

from deployer.backend.graphql.listing import DEFAULT_PAGE
from deployer.backend.refusal import Refusal, not_found
from deployer.backend.scheduling.context import Request

MOST_DIGITS = 18

# What a resolver is told about the request it is part of.
Info: TypeAlias = "GraphQLResolveInfo[Request]"


def encode_id(kind: str, row_id: int) -> str:
    """Return the opaque id of a row: base64, since the SDK takes artifacts' ids apart."""
    return base64.b64encode(f"{kind}:{row_id}".encode()).decode()


def decode_id(kind: str, text: str) -> int:
    """Return the row of an opaque id; refuse with 404 one of another kind.

    Agents that joined before ids were base64 still send the plain form.
    """
    with contextlib.suppress(ValueError):
        text = text if ":" in text else base64.b64decode(text, validate=True).decode()
    prefix, _, number = text.rpartition(":")
    if prefix != kind or not is_number(number):
        raise not_found(f"{kind.lower()} {text}")
    return int(number)


def is_number(text: str) -> bool:
    """Return True for the digits of a number that the database can hold."""
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


def parse_cursor(after: str | None) -> int:
    """Return the number that a cursor stands for; refuse with 400 what is none."""
    if after and not is_number(after):
        raise Refusal(400, f"the cursor {after!r} is not one of ours")
    return int(after or 0)


def tag_nodes(kind: str, names: Sequence[str]) -> list[dict[str, str]]:
    """Return tags as W&B's type `Tag`; `kind` keeps those of different things apart."""
    return [{"id": encode_id(kind, number), "name": name} for number, name in enumerate(names)]


def connection(
    nodes: Sequence[Any],
    after: str | None = None,
    first: int | None = None,
    default_page: int | None = DEFAULT_PAGE,
) -> dict[str, Any]:
    """Return one page of `nodes`; a cursor is the number of the next row. `None` is no limit."""
    start = parse_cursor(after)
    size = first if first is not None else default_page
    stop = len(nodes) if size is None else min(len(nodes), start + max(size, 0))
    edges = [
        {"node": node, "cursor": str(number)}
        for number, node in enumerate(nodes[start:stop], start + 1)
    ]
    return {
        "edges": edges,
        "page_info": {
            "has_next_page": stop < len(nodes),
            "end_cursor": edges[-1]["cursor"] if edges else after,
        },
        "total_count": len(nodes),
    }
