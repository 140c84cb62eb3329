"""W&B's run filters and orders: Mongo-like JSON and `+key` / `-key`, applied to stored runs."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from deployer.backend.refusal import Refusal
from deployer.backend.runs import Run

Predicate = Callable[[Run], bool]

COLUMNS: dict[str, Callable[[Run], Any]] = {
    "name": lambda run: run.name,
    "display_name": lambda run: run.display_name,
    "displayName": lambda run: run.display_name,
    "state": lambda run: run.state,
    "group": lambda run: run.group_name,
    "job_type": lambda run: run.job_type,
    "jobType": lambda run: run.job_type,
    "host": lambda run: run.host,
    "created_at": lambda run: run.created_at,
    "createdAt": lambda run: run.created_at,
    "heartbeat_at": lambda run: run.heartbeat_at,
    "heartbeatAt": lambda run: run.heartbeat_at,
    "tags": lambda run: json.loads(run.tags),
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def parse_filter(text: str | None, sweep_names: dict[int, str]) -> Predicate:
    """Return a filter as a predicate; `sweep_names` maps a sweep's row to its short id."""
    try:
        condition = json.loads(text or "{}")
    except ValueError as error:
        raise Refusal(400, f"the filter is not JSON: {error}") from error
    return _predicate(condition or {}, sweep_names)


def _predicate(condition: dict[str, Any], sweep_names: dict[int, str]) -> Predicate:
    parts = [_part(key, value, sweep_names) for key, value in condition.items()]
    return lambda run: all(part(run) for part in parts)


def _part(key: str, value: Any, sweep_names: dict[int, str]) -> Predicate:
    if key in ("$and", "$or", "$nor"):
        inner = [_predicate(condition, sweep_names) for condition in value]
        if key == "$and":
            return lambda run: all(test(run) for test in inner)
        return lambda run: any(test(run) for test in inner) is (key == "$or")
    if key == "$not":
        test = _predicate(value, sweep_names)
        return lambda run: not test(run)
    if key.startswith("$"):
        raise Refusal(400, f"the filter has an unknown operator {key}")
    wanted = value if _has_operators(value) else {"$eq": value}
    return lambda run: all(
        _compare(name, _value(run, key, sweep_names), operand) for name, operand in wanted.items()
    )


def _has_operators(value: Any) -> bool:
    return isinstance(value, dict) and any(key.startswith("$") for key in value)


def _value(run: Run, key: str, sweep_names: dict[int, str]) -> Any:
    if key == "sweep":
        return sweep_names.get(run.sweep_id or 0)
    if key in COLUMNS:
        return COLUMNS[key](run)
    head, _, rest = key.partition(".")
    if head == "config":
        return dig(json.loads(run.config), rest)
    if head in ("summary_metrics", "summary"):
        return dig(json.loads(run.summary), rest)
    return None


def dig(document: Any, path: str) -> Any:
    """Return a value by its dotted path; keys that contain dots are tried whole first."""
    if not path:
        return document
    if not isinstance(document, dict):
        return None
    if path in document:
        return document[path]
    head, _, rest = path.partition(".")
    inner = document.get(head)
    found = dig(inner, rest)
    if found is None and isinstance(inner, dict) and "value" in inner:
        return dig(inner["value"], rest)
    return found


def _compare(name: str, value: Any, operand: Any) -> bool:
    if isinstance(value, dict) and "value" in value:
        value = value["value"]
    if name == "$eq":
        return bool(value == operand or (isinstance(value, list) and operand in value))
    if name == "$ne":
        return not _compare("$eq", value, operand)
    if name in ("$in", "$nin"):
        return any(_compare("$eq", value, item) for item in operand) is (name == "$in")
    if name == "$exists":
        return (value is not None) is bool(operand)
    if name == "$not":
        return not all(_compare(inner, value, item) for inner, item in operand.items())
    if name == "$regex":
        return value is not None and re.search(operand, str(value)) is not None
    if name in COMPARISONS:
        return type(value) in (int, float) and COMPARISONS[name](value, operand)
    raise Refusal(400, f"the filter has an unknown operator {name}")


def sort_runs(runs: Sequence[Run], order: str | None) -> list[Run]:
    """Sort by `+key` or `-key`; runs without the key, and NaN, go last; ties keep their order."""
    key = (order or "+created_at").strip()
    descending = key.startswith("-")
    name = key.lstrip("+-")
    keyed = [(_sortable(_value(run, name, {})), run) for run in runs]
    known = [(value, run) for value, run in keyed if value is not None]
    known.sort(key=lambda pair: pair[0], reverse=descending)
    return [run for _, run in known] + [run for value, run in keyed if value is None]


def _sortable(value: Any) -> tuple[int, float, str] | None:
    if isinstance(value, dict):
        value = value.get("value", next(iter(value.values()), None))
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, int | float):
        return (0, float(value), "")
    return (1, 0.0, str(value))
