"""W&B's filter language: Mongo-like JSON, checked whole before any row is looked at."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from deployer.backend.graphql.fields import MISSING, Fields
from deployer.backend.refusal import Refusal

R = TypeVar("R")
Predicate = Callable[[R], bool]
Test = Callable[[Any], bool]
Convert = Callable[[Any], Any]

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def parse_filter(text: str | None, fields: Fields[R]) -> Predicate[R]:
    """Return a filter as a predicate on rows; refuse with 400 what is not in the language."""
    try:
        condition = json.loads(text or "{}")
    except ValueError as error:
        raise Refusal(400, f"the filter is not JSON: {error}") from error
    return _predicate(condition or {}, fields)


def _predicate(condition: Any, fields: Fields[R]) -> Predicate[R]:
    if not isinstance(condition, dict):
        raise Refusal(400, f"the filter has {json.dumps(condition)} where an object belongs")
    parts = [_part(key, value, fields) for key, value in condition.items()]
    return lambda row: all(part(row) for part in parts)


def _part(key: str, value: Any, fields: Fields[R]) -> Predicate[R]:
    if key == "$not":
        inner = _predicate(value, fields)
        return lambda row: not inner(row)
    if key in ("$and", "$or", "$nor"):
        return _combined(key, [_predicate(part, fields) for part in _listed(key, value)])
    if key.startswith("$"):
        raise _unknown(key)
    read = fields.reader(key)
    if fields.is_time(key):
        # Times are told to whole seconds, so that is how they compare.
        at_time = _value_test(value, _seconds)
        return lambda row: at_time(
            found if (found := read(row)) is MISSING else float(math.floor(found))
        )
    test = _value_test(value, lambda operand: operand)
    return lambda row: test(read(row))


def _combined(name: str, parts: list[Predicate[R]]) -> Predicate[R]:
    if name == "$and":
        return lambda row: all(part(row) for part in parts)
    return lambda row: any(part(row) for part in parts) is (name == "$or")


def _value_test(condition: Any, convert: Convert) -> Test:
    """Return the test of one value: plain equality, or every operator of an object."""
    if not (isinstance(condition, dict) and any(key.startswith("$") for key in condition)):
        return _equal(convert(condition))
    tests = [
        _operator(name, operand, convert, str(condition.get("$options", "")))
        for name, operand in condition.items()
        if name != "$options"
    ]
    return lambda value: all(test(value) for test in tests)


def _operator(name: str, operand: Any, convert: Convert, options: str) -> Test:
    if name in COMPARISONS:
        return _comparison(COMPARISONS[name], convert(operand))
    if name == "$regex":
        return _regex(operand, options)
    if name == "$exists":
        return lambda value: (value is not MISSING) is bool(operand)
    if name in ("$eq", "$ne"):
        equal = _equal(convert(operand))
        return lambda value: equal(value) is (name == "$eq")
    if name == "$not":
        inner = _value_test(operand, convert)
        return lambda value: not inner(value)
    if name in ("$in", "$nin", "$all"):
        tests = [_equal(convert(item)) for item in _listed(name, operand)]
        if name == "$all":
            return lambda value: all(test(value) for test in tests)
        return lambda value: any(test(value) for test in tests) is (name == "$in")
    raise _unknown(name)


def _equal(operand: Any) -> Test:
    """Compare as Mongo does: a list also equals each of its items, null what is not there."""

    def test(value: Any) -> bool:
        if value is MISSING:
            return operand is None
        listed = value if isinstance(value, list) else []
        return _same(value, operand) or any(_same(item, operand) for item in listed)

    return test


def _same(value: Any, operand: Any) -> bool:
    """Compare two values; in Python, but not here, true is 1."""
    return isinstance(value, bool) is isinstance(operand, bool) and bool(value == operand)


def _comparison(compare: Callable[[Any, Any], bool], operand: Any) -> Test:
    """Order numbers with numbers and text with text; what is of another kind does not match."""
    kind = str if isinstance(operand, str) else (int, float)

    def test(value: Any) -> bool:
        items = value if isinstance(value, list) else [value]
        return any(
            isinstance(item, kind) and not isinstance(item, bool) and compare(item, operand)
            for item in items
        )

    if isinstance(operand, bool) or not isinstance(operand, str | int | float):
        raise Refusal(400, f"the filter compares with {json.dumps(operand)}, which has no order")
    return test


def _regex(operand: Any, options: str) -> Test:
    try:
        pattern = re.compile(str(operand), re.IGNORECASE if "i" in options else 0)
    except re.error as error:
        raise Refusal(400, f"the filter's $regex {operand!r} is wrong: {error}") from error

    def test(value: Any) -> bool:
        items = value if isinstance(value, list) else [value]
        return any(item not in (MISSING, None) and pattern.search(str(item)) for item in items)

    return test


def _seconds(operand: Any) -> Any:
    """Return a time of ISO 8601, in UTC if it names no zone, as seconds since the epoch."""
    if not isinstance(operand, str):
        return operand
    try:
        moment = datetime.fromisoformat(operand)
    except ValueError as error:
        raise Refusal(400, f"the filter's time {operand!r} is not ISO 8601") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _listed(name: str, operand: Any) -> list[Any]:
    if not isinstance(operand, list):
        raise Refusal(400, f"the filter's {name} needs a list")
    return operand


def _unknown(name: str) -> Refusal:
    return Refusal(400, f"the filter has an unknown operator {name}")
