"""W&B's filter language, Mongo-like JSON, and the keys of rows that it may name."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter, ge, gt, le, lt
from typing import Any, Generic, TypeVar

from deployer.backend.graphql.patterns import Budget, Pattern, PatternError
from deployer.backend.parsing import parse_json
from deployer.backend.refusal import Refusal

R = TypeVar("R")
Reader = Callable[[R], Any]
Test = Callable[[Any], bool]  # of a row or of a value

# A row has no such key; None is a value that somebody wrote.
MISSING = object()
MOST_TERMS = 1000
COMPARISONS = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}


@dataclass(frozen=True)
class Fields(Generic[R]):
    """What filters and orders may name of one kind of row: W&B's words, in snake or camel case.

    `columns` are attributes of the row, `others` are read by a function. What ends in `_at` is a
    time, in seconds since the epoch. `documents` are JSON of which `head.a.b` is a part; each
    gives the forms in which the part may be, and the first that has it counts.
    """

    columns: Collection[str]
    others: Mapping[str, Reader[R]] = field(default_factory=dict)
    documents: Mapping[str, Callable[[R], Sequence[Any]]] = field(default_factory=dict)

    def reader(self, key: str) -> Reader[R]:
        """Return what reads a key of a row, MISSING where it has none; refuse an unknown key."""
        head, _, path = key.partition(".")
        if path and (forms := self.documents.get(_snake(head))):
            return lambda row: next(
                (part for form in forms(row) if (part := _dig(form, path)) is not MISSING), MISSING
            )
        name = _snake(key)
        read = attrgetter(name) if name in self.columns else self.others.get(name)
        if read is None:
            raise Refusal(400, f'unknown key "{key}" in a filter or an order')
        return lambda row: MISSING if (value := read(row)) is None else value


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z])[A-Z]", lambda letter: "_" + letter[0].lower(), key)


def _is_time(key: str) -> bool:
    return "." not in key and _snake(key).endswith("_at")


def _dig(document: Any, path: str) -> Any:
    """Return a part by its dotted path; a key that itself contains dots goes first."""
    if not isinstance(document, dict):
        return MISSING
    if path in document:
        return document[path]
    for cut in reversed([spot for spot, letter in enumerate(path) if letter == "."]):
        found = _dig(document.get(path[:cut]), path[cut + 1 :])
        if found is not MISSING:
            return found
    return MISSING


class Filter(Generic[R]):
    """A filter, checked whole when it is made: what is not in the language is refused with 400.

    It becomes one function, `passes`, since a thousand terms may be asked of ten thousand rows;
    that refuses with 400 a pattern that takes too long. `condition` is the filter's JSON.
    """

    def __init__(self, text: str | None, fields: Fields[R]) -> None:
        self.condition = parse_json(text or "{}", "the filter") or {}
        self._fields = fields
        self._terms, self._budget = 0, Budget()
        self.passes: Callable[[R], bool] = self._row_test(self.condition)

    def _row_test(self, condition: Any) -> Test:
        if not isinstance(condition, dict):
            raise Refusal(400, f"the filter has {json.dumps(condition)} where an object belongs")
        return _all([self._part(key, value) for key, value in condition.items()])

    def _part(self, key: str, value: Any) -> Test:
        if key == "$not":
            return _not(self._row_test(value))
        if key in ("$and", "$or", "$nor"):
            parts = [self._row_test(part) for part in _listed(key, value)]
            if key == "$and":
                return _all(parts)
            return lambda row: any(part(row) for part in parts) is (key == "$or")
        if key.startswith("$"):
            raise _unknown(key)
        read = self._fields.reader(key)
        if not _is_time(key):
            test = self._value_test(value, lambda operand: operand)
            return lambda row: test(read(row))
        # Times are told to whole seconds, so that is how they compare.
        at_time = self._value_test(value, _seconds)
        return lambda row: at_time(
            found if (found := read(row)) is MISSING else float(math.floor(found))
        )

    def _value_test(self, condition: Any, convert: Callable[[Any], Any]) -> Test:
        """Return the test of one value: plain equality, or every operator of an object."""
        if not (isinstance(condition, dict) and any(key.startswith("$") for key in condition)):
            condition = {"$eq": condition}
        options = condition.get("$options", "")
        if not isinstance(options, str) or ("$options" in condition and "$regex" not in condition):
            raise Refusal(400, "the filter's $options are the letters beside a $regex")
        return _all(
            [
                self._operator(name, operand, convert, options)
                for name, operand in condition.items()
                if name != "$options"
            ]
        )

    def _operator(
        self, name: str, operand: Any, convert: Callable[[Any], Any], options: str
    ) -> Test:
        self._count(1)
        if name == "$not":
            return _not(self._value_test(operand, convert))
        if name == "$exists":
            return lambda value: (value is not MISSING) is bool(operand)
        if name == "$regex":
            return self._matches(operand, options)
        if name in COMPARISONS:
            return _compares(COMPARISONS[name], convert(operand))
        if name in ("$eq", "$ne"):
            test = _equals(convert(operand))
        elif name in ("$in", "$nin"):
            test = self._is_among([convert(item) for item in _listed(name, operand)])
        elif name == "$all":
            test = _all([self._is_among([convert(item)]) for item in _listed(name, operand)])
        else:
            raise _unknown(name)
        return _not(test) if name in ("$ne", "$nin") else test

    def _is_among(self, operands: list[Any]) -> Test:
        """Return the test of `$in`, for which thousands of texts are one term."""
        texts = {operand for operand in operands if isinstance(operand, str)}
        tests = [_equals(operand) for operand in operands if not isinstance(operand, str)]
        self._count(len(tests))
        return lambda value: (
            any(isinstance(item, str) and item in texts for item in _items(value))
            or any(test(value) for test in tests)
        )

    def _matches(self, operand: Any, options: str) -> Test:
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
            try:
                return any(isinstance(item, str) and pattern.search(item) for item in _items(value))
            except PatternError as error:
                raise wrong(error) from error

        return test

    def _count(self, terms: int) -> None:
        self._terms += terms
        if self._terms > MOST_TERMS:
            raise Refusal(400, f"the filter has more than {MOST_TERMS} terms")


def _all(tests: Sequence[Test]) -> Test:
    return tests[0] if len(tests) == 1 else lambda value: all(test(value) for test in tests)


def _not(test: Test) -> Test:
    return lambda value: not test(value)


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _equals(operand: Any) -> Test:
    """Compare as Mongo does: a list also equals each of its items, null what is not there."""

    def test(value: Any) -> bool:
        if value is MISSING:
            return operand is None
        return _same(value, operand) or (
            isinstance(value, list) and any(_same(item, operand) for item in value)
        )

    return test


def _same(value: Any, operand: Any) -> bool:
    """Compare two values; in Python, but not here, true is 1."""
    return isinstance(value, bool) is isinstance(operand, bool) and bool(value == operand)


def _compares(compare: Callable[[Any, Any], bool], operand: Any) -> Test:
    """Order numbers with numbers and text with text; what is of another kind does not match."""
    if isinstance(operand, bool) or not isinstance(operand, str | int | float):
        raise Refusal(400, f"the filter compares with {json.dumps(operand)}, which has no order")
    kind = str if isinstance(operand, str) else (int, float)
    return lambda value: any(
        isinstance(item, kind) and not isinstance(item, bool) and compare(item, operand)
        for item in _items(value)
    )


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
