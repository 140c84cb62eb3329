"""argparse: what a parser says of command lines, and which of its flags a refusal is about."""

import argparse
import copy
import os
import sys
from typing import Any, Dict, Iterator, List, Optional, Tuple

from .answer import Answer, Judged, Words
from .sources import find_caller, is_called_by_project

PLACE = "_deployer_place"
OWN = "_deployer_own"
Problem = Dict[str, Any]


class Refused(BaseException):
    """A parser does not take a command line; not to be caught by a script."""


def install(answer: Answer, folder: str) -> None:
    """Watch every parser from now on."""
    parser, container = argparse.ArgumentParser, argparse._ActionsContainer
    strict = {"parse_args": True, "parse_intermixed_args": True}
    names = [*strict, "parse_known_args", "parse_known_intermixed_args"]
    watch = _Watch(answer, folder, {name: getattr(parser, name) for name in names if _has(name)})
    for name in watch.originals:
        setattr(parser, name, watch.replace(name, strict.get(name, False)))
    add = container.add_argument

    def add_argument(self: Any, *names: Any, **more: Any) -> Any:
        action = add(self, *names, **more)
        setattr(action, PLACE, find_caller(folder, argparse.__file__))
        setattr(action, OWN, is_called_by_project(folder, argparse.__file__))
        return action

    container.add_argument = add_argument  # type: ignore[method-assign]


def _has(name: str) -> bool:
    return hasattr(argparse.ArgumentParser, name)


class _Watch:
    """Takes the place of the methods that parse."""

    def __init__(self, answer: Answer, folder: str, originals: Dict[str, Any]) -> None:
        self.answer, self.folder, self.originals = answer, folder, originals
        self.busy = False

    def replace(self, name: str, strict: bool) -> Any:
        """Return a method for the one of this name."""

        def method(parser: Any, args: Any = None, namespace: Any = None) -> Any:
            original = self.originals[name]
            if self.busy:
                return original(parser, args, namespace)
            self.busy = True
            try:
                return self.meet(parser, args, namespace, original, strict)
            finally:
                self.busy = False

        return method

    def meet(self, parser: Any, args: Any, namespace: Any, original: Any, strict: bool) -> Any:
        """Judge all command lines; return only where another parser is to be asked."""
        answer = self.answer
        answer.note_parse(find_caller(self.folder, argparse.__file__))
        words = sys.argv[1:] if args is None else [str(word) for word in args]
        lines = answer.find_lines(words)
        if lines is None:
            if answer.may_parse_again:
                return original(parser, args, namespace)
            answer.end("it parses other words than those of its command line")
            return None
        strict = strict or _refuses_left_over()
        answer.add_flags(list(describe_flags(parser)))
        judged = [judge(parser, line, namespace, strict, self.originals) for line in lines]
        if strict or judged[0].problems or not answer.may_parse_again:
            answer.settle("argparse", judged, strict)
        answer.leave_over("argparse", judged)
        return original(parser, args, namespace)


def _refuses_left_over() -> bool:
    """Tell whether the caller, of the package transformers, refuses what is left over."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "parse_args_into_dataclasses":
            return not frame.f_locals.get("return_remaining_strings")
        frame = frame.f_back
    return False


def judge(parser: Any, line: Words, namespace: Any, strict: bool, originals: Any) -> Judged:
    """Parse a command line; whatever the parser prints or does to end the process is undone."""
    parse = originals["parse_known_args"]
    try:
        with _Disarmed(parser):
            _, rest = parse(parser, list(line), copy.copy(namespace))
    except Refused as refusal:
        return Judged(_explain(parser, line, str(refusal)), [])
    except SystemExit as end:
        return Judged(_explain(parser, line, "it ends with exit code %s" % end.code), [])
    except Exception as error:
        said = "%s: %s" % (type(error).__name__, error)
        return Judged(_explain(parser, line, said) if line else [], [])
    if rest and strict:
        said = "unrecognized arguments: " + " ".join(rest)
        return Judged(_explain(parser, line, said), rest)
    return Judged([], list(rest))


class _Disarmed:
    """A parser, and those of its subcommands, whose refusal is raised and that opens no file."""

    def __init__(self, parser: Any) -> None:
        self.parsers = list(_list_parsers(parser))
        self.types: List[Tuple[Any, Any]] = []

    def __enter__(self) -> None:
        for parser in self.parsers:
            parser.error = self._make_error(parser)
            for action in parser._actions:
                if isinstance(action.type, argparse.FileType) and "r" not in action.type._mode:
                    self.types.append((action, action.type))
                    action.type = str

    def __exit__(self, *_: Any) -> None:
        for parser in self.parsers:
            del parser.error
        for action, kind in self.types:
            action.type = kind

    def _make_error(self, parser: Any) -> Any:
        own = type(parser).error

        def error(message: str) -> None:
            if own is not argparse.ArgumentParser.error:
                try:
                    own(parser, message)
                except BaseException:
                    raise Refused(message) from None
                return  # a parser that goes on all the same
            raise Refused(message)

        return error


def _list_parsers(parser: Any) -> Iterator[Any]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in dict.fromkeys(action.choices.values()):
                yield from _list_parsers(inner)


def describe_flags(parser: Any) -> Iterator[Dict[str, Any]]:
    """Yield what is known of each flag, those of subcommands included."""
    for one in _list_parsers(parser):
        for action in one._actions:
            if not action.option_strings or isinstance(action, argparse._HelpAction):
                continue
            path, line = getattr(action, PLACE, ("", 0))
            kind = action.type
            yield {
                "names": sorted(action.option_strings, key=len, reverse=True),
                "type": _name_type(kind),
                "choices": _list_choices(action),
                "default": _plain(action.default),
                "required": bool(action.required),
                "takes_value": action.nargs != 0,
                "many": action.nargs not in (None, 0, "?"),
                "constant": _plain(action.const) if action.nargs == 0 else None,
                "paired": type(action).__name__ == "BooleanOptionalAction",
                "help": action.help if isinstance(action.help, str) else "",
                "file": path,
                "line": line,
                "own": getattr(action, OWN, False),
            }


def _name_type(kind: Any) -> str:
    return "" if kind is None else str(getattr(kind, "__name__", type(kind).__name__))


def _list_choices(action: Any) -> List[Any]:
    try:
        return [] if action.choices is None else [_plain(one) for one in action.choices][:1000]
    except TypeError:
        return []


def _plain(value: Any) -> Any:
    known = (bool, int, float, str, type(None))
    return value if isinstance(value, known) else str(value)


def _explain(parser: Any, line: Words, said: str) -> List[Problem]:
    """Return what a refusal is about: flag by flag, else in the parser's words."""
    try:
        found = list(_Reading(parser, line).list_problems())
    except Exception:
        found = []
    return found or [{"kind": "refused", "flag": "", "said": said}]


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
        except Exception:
            yield _problem("type", name, action, value=text)
            return
        if action.choices is not None and read not in action.choices:
            yield _problem("choice", name, action, value=text)


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
        "type": _name_type(action.type) if named else "",
        "choices": _list_choices(action) if named else [],
        "file": path and os.path.realpath(path),
        "line": line,
        **more,
    }
