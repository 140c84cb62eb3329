"""W&B's filter language, a Mongo-like JSON; patterns match in time linear in the text."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from operator import attrgetter, ge, gt, le, lt
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Generic, TypeVar
from unicodedata import category

from deployer.backend.request import Refusal, parse_json

warnings.filterwarnings("ignore", "Possible (nested set|set )", FutureWarning)  # of `[[`, `&&`

MOST_LETTERS = 1000  # of a pattern
MOST_STATES = 3000  # with all repetitions expanded
MOST_WORK = 1_000_000  # states visited by all patterns of a filter; takes a few seconds
MOST_REMEMBERED = 200_000  # states in the cached sets of one search

OPTIONS = {"i": re.I, "m": re.M, "s": re.S, "x": re.X, "u": re.NOFLAG}
LAST_BREAK = "\n$"  # a line break at the end of the text, before which `$` matches

Ranges = tuple[tuple[int, int], ...]
Predicate = Callable[[str, str], bool]
# Named classes: POSIX's, as Python writes them within brackets, and Unicode's general categories.
POSIX = (
    r"alnum=\da-zA-Z alpha=a-zA-Z blank=\x20\t cntrl=\0-\x1f\x7f digit=\d graph=!-~ lower=a-z"
    r" print=\x20-~ punct=!-/:-@\[-`{-~ space=\s upper=A-Z word=\w xdigit=\da-fA-F"
)
RANGES = dict(re.findall(r"(\w+)=(\S+)", POSIX))
NAMED_CLASS = re.compile(r"\\([pP])(?:\{(\w+)\}|(\w))|\[:(\^?)(\w+):\]|\\.", re.S)
# As MongoDB's PCRE has them: ASCII alone.
DIGITS: Ranges = ((48, 57),)
WORDS: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
SPACES: Ranges = ((9, 13), (32, 32))
OF_LINES = {ops.AT_BEGINNING: ops.AT_BEGINNING_LINE, ops.AT_END: ops.AT_END_LINE}
FOUND = 0
R = TypeVar("R")
Reader = Callable[[R], Any]
Test = Callable[[Any], bool]  # of a row or of a value
# The row lacks the key; None is a stored value.
MISSING = object()
MOST_TERMS = 1000
COMPARISONS = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}


# Users write the patterns, so matching must take linear time; `re` may take forever. A pattern
# becomes a Thompson automaton, and a search caches the sets of states that it reaches.


class PatternError(ValueError):
    """A pattern that is invalid, too expensive, or unsupported by this engine."""


@dataclass
class Budget:
    """The number of states that may still be visited."""

    left: int = MOST_WORK

    def spend(self, states: int) -> None:
        """Subtract visited states; raise PatternError if the budget is exceeded."""
        self.left -= states
        if self.left < 0:
            raise PatternError("it takes too long on these texts")


@dataclass(frozen=True)
class _Letter:
    """A test of one letter."""

    ranges: Ranges
    negated: bool = False
    ignore_case: bool = False

    def fits(self, letter: str) -> bool:
        forms = {letter, letter.lower(), letter.upper()} if self.ignore_case else {letter}
        codes = [ord(form) for form in forms if len(form) == 1]
        found = any(_is_within(code, *ends) for code in codes for ends in self.ranges)
        return found is not self.negated


def _outside(ranges: Ranges) -> Ranges:
    edges = [-1, *chain.from_iterable(ranges), 0x110000]
    return tuple((low + 1, high - 1) for low, high in zip(edges[::2], edges[1::2], strict=True))


def _is_word(letter: str) -> bool:
    return letter == "_" or (letter.isascii() and letter.isalnum())


CLASSES = [*RANGES, *{category(chr(code))[:size] for code in range(0xE001) for size in (1, 2)}]
# Private-use letters of Unicode that represent each class and its negation during parsing.
CLASS_LETTERS = range(0x10F000, 0x10F000 + 2 * len(CLASSES))


def _class_letter(found: re.Match[str]) -> str:
    case, category_name, short, outside, posix = found.groups()
    name = category_name or short or posix
    if name and name not in CLASSES:
        raise PatternError(
            f"it has {found[0]}, which is not a known class; scripts are not supported"
        )
    negated = case == "P" or bool(outside)
    return chr(CLASS_LETTERS[2 * CLASSES.index(name) + negated]) if name else found[0]


def _is_within(code: int, low: int, high: int) -> bool:
    if low not in CLASS_LETTERS:
        return low <= code <= high
    index, negated = divmod(low - CLASS_LETTERS.start, 2)
    name, letter = CLASSES[index], chr(code)
    ranges = RANGES.get(name)
    found = re.match(f"[{ranges}]", letter, re.A) if ranges else category(letter).startswith(name)
    return bool(found) is not bool(negated)


CATEGORIES = {
    ops.CATEGORY_DIGIT: DIGITS,
    ops.CATEGORY_NOT_DIGIT: _outside(DIGITS),
    ops.CATEGORY_WORD: WORDS,
    ops.CATEGORY_NOT_WORD: _outside(WORDS),
    ops.CATEGORY_SPACE: SPACES,
    ops.CATEGORY_NOT_SPACE: _outside(SPACES),
}
# Tests of the letters before and after a position; "" is the end of the text.
PLACES: dict[Any, Predicate] = {
    ops.AT_BEGINNING: lambda before, _: not before,
    ops.AT_BEGINNING_STRING: lambda before, _: not before,
    ops.AT_BEGINNING_LINE: lambda before, after: not before or (before == "\n" and after != ""),
    ops.AT_END: lambda _, after: after in ("", LAST_BREAK),
    ops.AT_END_STRING: lambda _, after: after in ("", LAST_BREAK),
    ops.AT_END_LINE: lambda _, after: after in ("", "\n", LAST_BREAK),
    ops.AT_BOUNDARY: lambda before, after: _is_word(before) is not _is_word(after),
    ops.AT_NON_BOUNDARY: lambda before, after: _is_word(before) is _is_word(after),
}

# A state's test and its successors. A letter test consumes a letter; a position test (Predicate)
# consumes nothing and must hold; None always passes.
NfaState = tuple[_Letter | Predicate | None, tuple[int, ...]]


class _Builder:
    """Builds states from the end of a pattern to its beginning."""

    def __init__(self) -> None:
        self.states: list[NfaState] = [(None, ())]
        self._steps = 0

    def sequence(self, nodes: Sequence[Any], flags: int, then: int) -> int:
        self._steps += 1 + len(nodes)
        if self._steps > MOST_STATES:
            raise PatternError(f"it needs more than {MOST_STATES} steps")
        for op, argument in reversed(nodes):
            then = self._node(op, argument, flags, then)
        return then

    def _add(self, test: _Letter | Predicate | None, *leads_to: int) -> int:
        self.states.append((test, leads_to))
        return len(self.states) - 1

    def _node(self, op: Any, argument: Any, flags: int, then: int) -> int:
        if op in (ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN):
            return self._add(_letter(op, argument, flags), then)
        if op is ops.AT:
            place = OF_LINES.get(argument, argument) if flags & re.M else argument
            return self._add(PLACES[place], then)
        if op is ops.BRANCH:
            return self._add(None, *[self.sequence(part, flags, then) for part in argument[1]])
        if op is ops.SUBPATTERN:
            _, added, removed, inner = argument
            return self.sequence(inner, (flags | added) & ~removed, then)
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
            least, most, inner = argument
            end = then
            if most is ops.MAXREPEAT:
                then = self._add(None)
                self.states[then] = (None, (self.sequence(inner, flags, then), end))
            else:
                for _ in range(most - least):
                    then = self._add(None, self.sequence(inner, flags, then), end)
            for _ in range(least):
                then = self.sequence(inner, flags, then)
            return then
        raise PatternError("it has a back reference, a lookaround or an atomic group")


def _letter(op: Any, argument: Any, flags: int) -> _Letter:
    if op is ops.ANY:
        return _Letter(() if flags & re.S else ((10, 10),), negated=True)
    items = argument if op is ops.IN else [(op, argument)]
    ranges: list[tuple[int, int]] = []
    for kind, value in items:
        if kind is ops.CATEGORY:
            ranges += CATEGORIES[value]
        elif kind is not ops.NEGATE:
            ranges.append(value if kind is ops.RANGE else (value, value))
    negated = op is ops.NOT_LITERAL or items[0][0] is ops.NEGATE
    return _Letter(tuple(ranges), negated, bool(flags & re.I))


class _Set(dict[str, "_Set"]):
    """The states that a search is in at one letter, and the next sets by letter."""

    def __init__(self, states: Iterable[int] = (), before: str = "") -> None:
        super().__init__()
        self.states, self.before = states, before


IS_FOUND = _Set()


class Pattern:
    """A pattern in the common syntax of Python and PCRE; it and `search` raise PatternError."""

    def __init__(self, text: str, options: str = "", budget: Budget | None = None) -> None:
        if len(text) > MOST_LETTERS:
            raise PatternError(f"it is longer than {MOST_LETTERS} characters")
        if unknown := set(options) - set(OPTIONS):
            raise PatternError(f"it has an unknown option {min(unknown)}")
        builder, flags = _Builder(), 0
        for option in options:
            flags |= OPTIONS[option]
        try:
            tree = _parser.parse(NAMED_CLASS.sub(_class_letter, text), flags)
            self._start = builder.sequence(tree, tree.state.flags, FOUND)
        except (re.error, OverflowError) as error:
            raise PatternError(str(error)) from error
        except RecursionError as error:
            raise PatternError("its groups are nested too deeply") from error
        self._states, self._budget = builder.states, budget or Budget()
        self._forget()

    def search(self, text: str) -> bool:
        here = self._first
        for letter in _letters(text):
            known = here.get(letter)
            here = self._follow(here, letter) if known is None else known
            if here is IS_FOUND:
                return True
        return False

    def _forget(self) -> None:
        self._remembered = 0
        self._first = _Set({self._start})
        self._sets: dict[tuple[frozenset[int], str], _Set] = {}

    def _follow(self, here: _Set, letter: str) -> _Set:
        if self._remembered > MOST_REMEMBERED:
            self._forget()
        reached = self._reach(here, letter)
        there = IS_FOUND if reached is None else self._set_after(letter, reached)
        here[letter] = there
        return there

    def _reach(self, here: _Set, after: str) -> set[int] | None:
        """Return the states that can take the next letter; None if the pattern has matched."""
        reached: set[int] = set()
        waiting = list(here.states)
        while waiting:
            number = waiting.pop()
            if number == FOUND:
                return None
            test, leads_to = self._states[number]
            if number in reached:
                continue
            reached.add(number)
            if test is None or (not isinstance(test, _Letter) and test(here.before, after)):
                waiting += leads_to
        self._budget.spend(1 + len(reached))
        return reached

    def _set_after(self, letter: str, reached: set[int]) -> _Set:
        states = {self._start}
        for number in reached:
            test, leads_to = self._states[number]
            if isinstance(test, _Letter) and letter and test.fits(letter[0]):
                states.update(leads_to)
        before = letter[:1] if letter[:1] in ("", "\n") else "a" if _is_word(letter[0]) else "."
        key = (frozenset(states), before)
        self._remembered += 1
        if key not in self._sets:
            self._remembered += len(states)
            self._sets[key] = _Set(*key)
        return self._sets[key]


def _letters(text: str) -> Iterator[str]:
    if text.endswith("\n"):
        return chain(text[:-1], (LAST_BREAK, ""))
    return chain(text, ("",))


@dataclass(frozen=True)
class Fields(Generic[R]):
    """The keys of one kind of row for filters and orders: W&B's names, in snake or camel case.

    `columns` are attributes of the row; a function reads each of `others`. A key that ends in
    `_at` is a time, in seconds since the epoch. `documents` are JSON, and `head.a.b` is the path
    of a part. Each document returns several forms; the first form that has the part is used.
    """

    columns: Collection[str]
    others: Mapping[str, Reader[R]] = field(default_factory=dict)
    documents: Mapping[str, Callable[[R], Sequence[Any]]] = field(default_factory=dict)

    def reader(self, key: str) -> Reader[R]:
        """Return a reader of one key, which returns MISSING if unset; refuse an unknown key."""
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
    """Return a part by its dotted path; keys that contain dots take precedence."""
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
    """A filter; the constructor validates it and refuses unknown syntax with 400.

    It compiles to one function, `passes`, since a filter may test a thousand terms on ten thousand
    rows. `passes` refuses a pattern that takes too long with 400. `condition` is the filter's JSON.
    """

    def __init__(self, text: str | None, fields: Fields[R]) -> None:
        self.condition = parse_json(text or "{}", "the filter") or {}
        self._fields = fields
        self._terms, self._budget = 0, Budget()
        self.passes: Callable[[R], bool] = self._row_test(self.condition)

    def _row_test(self, condition: Any) -> Test:
        if not isinstance(condition, dict):
            raise Refusal(400, f"the filter has {json.dumps(condition)} instead of an object")
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
        # The API returns times in whole seconds, so compare whole seconds.
        at_time = self._value_test(value, _seconds)
        return lambda row: at_time(
            found if (found := read(row)) is MISSING else float(math.floor(found))
        )

    def _value_test(self, condition: Any, convert: Callable[[Any], Any]) -> Test:
        """Return a test of one value: equality, or all operators of an object."""
        if not (isinstance(condition, dict) and any(key.startswith("$") for key in condition)):
            condition = {"$eq": condition}
        options = condition.get("$options", "")
        if not isinstance(options, str) or ("$options" in condition and "$regex" not in condition):
            raise Refusal(400, "the filter's $options must be text next to a $regex")
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
        texts = {operand for operand in operands if isinstance(operand, str)}
        tests = [_equals(operand) for operand in operands if not isinstance(operand, str)]
        self._count(len(tests))
        return lambda value: (
            any(isinstance(item, str) and item in texts for item in _items(value))
            or any(test(value) for test in tests)
        )

    def _matches(self, operand: Any, options: str) -> Test:
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
    """Compare like Mongo: a list also equals each of its items, and null equals a missing key."""

    def test(value: Any) -> bool:
        if value is MISSING:
            return operand is None
        return _same(value, operand) or (
            isinstance(value, list) and any(_same(item, operand) for item in value)
        )

    return test


def _same(value: Any, operand: Any) -> bool:
    """Compare two values; unlike in Python, true does not equal 1."""
    return isinstance(value, bool) is isinstance(operand, bool) and bool(value == operand)


def _compares(compare: Callable[[Any, Any], bool], operand: Any) -> Test:
    """Compare numbers with numbers and text with text; other types do not match."""
    if isinstance(operand, bool) or not isinstance(operand, str | int | float):
        raise Refusal(
            400, f"the filter cannot compare with {json.dumps(operand)}, which has no order"
        )
    kind = str if isinstance(operand, str) else (int, float)
    return lambda value: any(
        isinstance(item, kind) and not isinstance(item, bool) and compare(item, operand)
        for item in _items(value)
    )


def _seconds(operand: Any) -> Any:
    """Convert an ISO 8601 time to seconds since the epoch; UTC if it has no zone."""
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
