"""Patterns of users, matched in time that grows with the text alone: `re` may take for ever.

A pattern becomes a Thompson automaton. A search remembers the sets of states that it meets.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any
from unicodedata import category

warnings.filterwarnings("ignore", "Possible (nested set|set )", FutureWarning)  # of `[[`, `&&`

MOST_LETTERS = 1000  # of a pattern
MOST_STATES = 3000  # with every repetition spelled out
MOST_WORK = 1_000_000  # states looked at by all patterns of a filter: some seconds
MOST_REMEMBERED = 200_000  # states in the sets that one search remembers

OPTIONS = {"i": re.I, "m": re.M, "s": re.S, "x": re.X, "u": re.NOFLAG}
LAST_BREAK = "\n$"  # a line break at the end of the text, before which `$` matches

Ranges = tuple[tuple[int, int], ...]
Place = Callable[[str, str], bool]


class PatternError(ValueError):
    """A pattern that is wrong, too much, or beyond this engine."""


@dataclass
class Budget:
    """The states that may still be looked at."""

    left: int = MOST_WORK

    def spend(self, states: int) -> None:
        """Raise PatternError once nothing is left."""
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


# Named classes: POSIX's, as Python writes them within brackets, and Unicode's general categories.
POSIX = (
    r"alnum=\da-zA-Z alpha=a-zA-Z blank=\x20\t cntrl=\0-\x1f\x7f digit=\d graph=!-~ lower=a-z"
    r" print=\x20-~ punct=!-/:-@\[-`{-~ space=\s upper=A-Z word=\w xdigit=\da-fA-F"
)
RANGES = dict(re.findall(r"(\w+)=(\S+)", POSIX))
CLASSES = [*RANGES, *{category(chr(code))[:size] for code in range(0xE001) for size in (1, 2)}]
NAMED_CLASS = re.compile(r"\\([pP])(?:\{(\w+)\}|(\w))|\[:(\^?)(\w+):\]|\\.", re.S)
# Private letters of Unicode, which stand for each class and its opposite while a pattern is parsed.
CLASS_LETTERS = range(0x10F000, 0x10F000 + 2 * len(CLASSES))


def _class_letter(found: re.Match[str]) -> str:
    case, category_name, short, outside, posix = found.groups()
    name = category_name or short or posix
    if name and name not in CLASSES:
        raise PatternError(f"it has {found[0]}, no class of POSIX or category; scripts are unknown")
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


# As MongoDB's PCRE has them: ASCII alone.
DIGITS: Ranges = ((48, 57),)
WORDS: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
SPACES: Ranges = ((9, 13), (32, 32))
CATEGORIES = {
    ops.CATEGORY_DIGIT: DIGITS,
    ops.CATEGORY_NOT_DIGIT: _outside(DIGITS),
    ops.CATEGORY_WORD: WORDS,
    ops.CATEGORY_NOT_WORD: _outside(WORDS),
    ops.CATEGORY_SPACE: SPACES,
    ops.CATEGORY_NOT_SPACE: _outside(SPACES),
}
# What must stand before and after; "" is the end of the text.
PLACES: dict[Any, Place] = {
    ops.AT_BEGINNING: lambda before, _: not before,
    ops.AT_BEGINNING_STRING: lambda before, _: not before,
    ops.AT_BEGINNING_LINE: lambda before, after: not before or (before == "\n" and after != ""),
    ops.AT_END: lambda _, after: after in ("", LAST_BREAK),
    ops.AT_END_STRING: lambda _, after: after in ("", LAST_BREAK),
    ops.AT_END_LINE: lambda _, after: after in ("", "\n", LAST_BREAK),
    ops.AT_BOUNDARY: lambda before, after: _is_word(before) is not _is_word(after),
    ops.AT_NON_BOUNDARY: lambda before, after: _is_word(before) is _is_word(after),
}
OF_LINES = {ops.AT_BEGINNING: ops.AT_BEGINNING_LINE, ops.AT_END: ops.AT_END_LINE}

# A state: what it takes (None: nothing, a place: nothing but there), and where it leads.
State = tuple[_Letter | Place | None, tuple[int, ...]]
FOUND = 0


class _Builder:
    """Makes states from the end of a pattern to its beginning."""

    def __init__(self) -> None:
        self.states: list[State] = [(None, ())]
        self._steps = 0

    def sequence(self, nodes: Sequence[Any], flags: int, then: int) -> int:
        self._steps += 1 + len(nodes)
        if self._steps > MOST_STATES:
            raise PatternError(f"it needs more than {MOST_STATES} steps")
        for op, argument in reversed(nodes):
            then = self._node(op, argument, flags, then)
        return then

    def _add(self, test: _Letter | Place | None, *leads_to: int) -> int:
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
            return self._repeat(least, most, inner, flags, then)
        raise PatternError("it has a back reference, a lookaround or an atomic group")

    def _repeat(self, least: int, most: int, inner: Sequence[Any], flags: int, then: int) -> int:
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
    """The states in which a search is at some letter, and the sets that follow, by letter."""

    def __init__(self, states: Iterable[int] = (), before: str = "") -> None:
        super().__init__()
        self.states, self.before = states, before


IS_FOUND = _Set()


class Pattern:
    """A pattern in the syntax that Python and PCRE share. Raises PatternError, also in `search`."""

    def __init__(self, text: str, options: str = "", budget: Budget | None = None) -> None:
        if len(text) > MOST_LETTERS:
            raise PatternError(f"it is longer than {MOST_LETTERS} letters")
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
        """Return True if a part of the text matches."""
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
