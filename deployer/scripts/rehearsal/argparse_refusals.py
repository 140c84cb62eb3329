"""argparse: which of its flags a parser's refusal is about."""

import argparse
import os
from typing import Any, Dict, Iterator, List, Optional

from .answer import Words
from .argparse_description import PLACE, list_choices, name_type

Problem = Dict[str, Any]


def explain(parser: Any, line: Words, said: str, flag: str = "") -> List[Problem]:
    """Return what a refusal is about: flag by flag, else in the parser's words."""
    try:
        found = list(_Reading(parser, line).list_problems())
    except Exception:
        found = []
    return found or [{"kind": "refused", "flag": flag, "said": said}]


class _Reading:
    """One look at a command line beside the parser that has refused it."""

    def __init__(self, parser: Any, line: Words) -> None:
        self.parser, self.line = parser, line
        self.given: List[Any] = []

    def list_problems(self) -> Iterator[Problem]:
        """Yield a problem for each flag that is wrong or missing."""
        words = list(self.line)
        read = [self.parser]
        while words:
            word = words.pop(0)
            inner = self._find_subcommand(word)
            if inner is not None:
                self.parser = inner
                read.append(inner)
            elif word.startswith("--") and len(word) > 2:
                yield from self._read_flag(word, words)
        for parser in read:
            for action in parser._actions:
                if action.required and action.option_strings and action not in self.given:
                    yield _problem("missing", max(action.option_strings, key=len), action)

    def _find_subcommand(self, word: str) -> Optional[Any]:
        for action in self.parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                return action.choices.get(word)
        return None

    def _read_flag(self, word: str, words: Words) -> Iterator[Problem]:
        name, equals, value = word.partition("=")
        known = self.parser._option_string_actions
        near = [name] if name in known else [one for one in known if one.startswith(name)]
        if name not in known and not getattr(self.parser, "allow_abbrev", True):
            near = []
        meant = list({id(known[one]): known[one] for one in near}.values())
        if len(meant) != 1:
            taken = [] if equals else _take(words)
            kind = "ambiguous" if meant else "unknown"
            yield _problem(kind, name, None, value=" ".join(taken) or value, near=sorted(near))
            return
        action = meant[0]
        self.given.append(action)
        if action.nargs == 0:
            if equals:
                yield _problem("no_value", name, action, value=value)
            return
        for text in [value] if equals else _take(words, action.nargs):
            yield from self._read_value(name, action, text)

    def _read_value(self, name: str, action: Any, text: str) -> Iterator[Problem]:
        try:
            read = self.parser._get_value(action, text)
        except Exception as error:
            more = {"words": _find_words(error), "whole": self._is_whole(action, text)}
            yield _problem("type", name, action, value=text, **more)
            return
        if action.choices is not None and read not in action.choices:
            yield _problem("choice", name, action, value=text)

    def _is_whole(self, action: Any, text: str) -> bool:
        """Tell whether 1.0 is refused and 1 taken: a server may hand out one for the other."""
        try:
            self.parser._get_value(action, str(int(float(text))))
        except Exception:
            return False
        return float(text).is_integer()


def _find_words(error: Exception) -> str:
    """Return what the script's own type says of a value, empty if argparse speaks."""
    cause = error.__context__
    return str(cause) if isinstance(cause, argparse.ArgumentTypeError) else ""


def _take(words: Words, nargs: Any = None) -> Words:
    """Take the values that follow a flag."""
    taken: Words = []
    while words and not words[0].startswith("--") and (nargs is not None or not taken):
        taken.append(words.pop(0))
    return taken


def _problem(kind: str, flag: str, action: Any, **more: Any) -> Problem:
    path, line = getattr(action, PLACE, ("", 0)) if action is not None else ("", 0)
    named = action is not None
    return {
        "kind": kind,
        "flag": flag,
        "names": list(action.option_strings) if named else [],
        "type": name_type(action.type) if named else "",
        "choices": list_choices(action) if named else [],
        "file": path and os.path.realpath(path),
        "line": line,
        **more,
    }
