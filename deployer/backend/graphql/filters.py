"""W&B's filter language: Mongo-like JSON, checked whole before any row is looked at."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from deployer.backend.graphql.fields import MISSING, Fields
from deployer.backend.graphql.patterns import Budget, Pattern, PatternError
from deployer.backend.parsing import parse_json
from deployer.backend.refusal import Refusal

R = TypeVar("R")
Predicate = Callable[[R], bool]
Test = Callable[[Any], bool]
Convert = Callable[[Any], Any]

MOST_TERMS = 1000

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def parse_filter(text: str | None, fields: Fields[R]) -> Predicate[R]:
    """Return a filter as a predicate on rows; refuse with 400 what is not in the language.

    The predicate refuses with 400 a pattern that takes too long.
    """
    condition = parse_json(text or "{}", "the filter")
    return _Parser(fields).predicate(condition or {})


class _Parser(Generic[R]):
    """Reads one filter; counts its terms, and what its patterns cost."""

    def __init__(self, fields: Fields[R]) -> None:
        self._fields = fields
        self._terms = 0
        self._budget = Budget()

    def predicate(self, condition: Any) -> Predicate[R]:
        if not isinstance(condition, dict):
            raise Refusal(400, f"the filter has {json.dumps(condition)} where an object belongs")
        parts = [self._part(key, value) for key, value in condition.items()]
        return parts[0] if len(parts) == 1 else lambda row: all(part(row) for part in parts)

    def _part(self, key: str, value: Any) -> Predicate[R]:
        if key == "$not":
            inner = self.predicate(value)
            return lambda row: not inner(row)
        if key in ("$and", "$or", "$nor"):
            return _combined(key, [self.predicate(part) for part in _listed(key, value)])
        if key.startswith("$"):
            raise _unknown(key)
        read = self._fields.reader(key)
        if self._fields.is_time(key):
            # Times are told to whole seconds, so that is how they compare.
            at_time = self._value_test(value, _seconds)
            return lambda row: at_time(
                found if (found := read(row)) is MISSING else float(math.floor(found))
            )
        test = self._value_test(value, lambda operand: operand)
        return lambda row: test(read(row))

    def _value_test(self, condition: Any, convert: Convert) -> Test:
        """Return the test of one value: plain equality, or every operator of an object."""
        if not (isinstance(condition, dict) and any(key.startswith("$") for key in condition)):
            self._count()
            return _equal(convert(condition))
        options = condition.get("$options", "")
        if not isinstance(options, str) or ("$options" in condition and "$regex" not in condition):
            raise Refusal(400, "the filter's $options are the letters beside a $regex")
        tests = [
            self._operator(name, operand, convert, options)
            for name, operand in condition.items()
            if name != "$options"
        ]
        return lambda value: all(test(value) for test in tests)

    def _operator(self, name: str, operand: Any, convert: Convert, options: str) -> Test:
        self._count()
        if name in COMPARISONS:
            return _comparison(COMPARISONS[name], convert(operand))
        if name == "$regex":
            return self._regex(operand, options)
        if name == "$exists":
            return lambda value: (value is not MISSING) is bool(operand)
        if name in ("$eq", "$ne"):
            equal = _equal(convert(operand))
            return lambda value: equal(value) is (name == "$eq")
        if name == "$not":
            inner = self._value_test(operand, convert)
            return lambda value: not inner(value)
        if name in ("$in", "$nin"):
            test = self._any_of([convert(item) for item in _listed(name, operand)])
            return lambda value: test(value) is (name == "$in")
        if name == "$all":
            tests = [self._any_of([convert(item)]) for item in _listed(name, operand)]
            return lambda value: all(test(value) for test in tests)
        raise _unknown(name)

    def _any_of(self, operands: list[Any]) -> Test:
        """Return the test of `$in`, for which thousands of texts are one term."""
        texts = {operand for operand in operands if isinstance(operand, str)}
        tests = [_equal(operand) for operand in operands if not isinstance(operand, str)]
        self._count(len(tests))

        def test(value: Any) -> bool:
            items = value if isinstance(value, list) else [value]
            is_text = any(isinstance(item, str) and item in texts for item in items)
            return is_text or any(test(value) for test in tests)

        return test

    def _regex(self, operand: Any, options: str) -> Test:
        """Match texts alone, as Mongo does."""
        if not isinstance(operand, str):
            raise Refusal(400, f"the filter's $regex {json.dumps(operand)} is not text")

        def wrong(error: PatternError) -> Refusal:
            return Refusal(400, f"the filter's $regex {operand!r} is wrong: {error}")

        try:
            pattern = Pattern(operand, options, self._budget)
        except PatternError as error:
            raise wrong(error) from error

        def test(value: Any) -> bool:
            items = value if isinstance(value, list) else [value]
            try:
                return any(isinstance(item, str) and pattern.search(item) for item in items)
            except PatternError as error:
                raise wrong(error) from error

        return test

    def _count(self, terms: int = 1) -> None:
        self._terms += terms
        if self._terms > MOST_TERMS:
            raise Refusal(400, f"the filter has more than {MOST_TERMS} terms")


def _combined(name: str, parts: list[Predicate[R]]) -> Predicate[R]:
    if name == "$and":
        return lambda row: all(part(row) for part in parts)
    return lambda row: any(part(row) for part in parts) is (name == "$or")


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


def _seconds(operand: Any) -> Any:
    """Return a time of ISO 8601, in UTC if it names no zone, as seconds since the epoch."""
    if not isinstance(operand, str):
        return operand
    try:
        moment = datetime.fromisoformat(operand)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise Refusal(400, f"the filter's time {operand!r} is not ISO 8601") from error


def _listed(name: str, operand: Any) -> list[Any]:
    if not isinstance(operand, list):
        raise Refusal(400, f"the filter's {name} needs a list")
    return operand


def _unknown(name: str) -> Refusal:
    return Refusal(400, f"the filter has an unknown operator {name}")
