"""argparse: what a parser says of command lines."""

import argparse
import copy
import sys
from typing import Any, Dict, List, Tuple

from .answer import Answer, Judged, Words
from .argparse_description import OWN, PLACE, describe_flags, list_parsers
from .argparse_refusals import explain
from .sources import find_caller, is_called_by_project, may_catch_exit


class Refused(BaseException):
    """A parser does not take a command line; not to be caught by a script.

    `flag` is the one that it names, if any.
    """

    flag = ""


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
            answer.read_other_words = True
            if answer.may_parse_again:
                return original(parser, args, namespace)
            answer.end("it parses other words than those of its command line")
            return None
        strict = strict or _refuses_left_over()
        answer.add_flags(list(describe_flags(parser)))
        judged = [judge(parser, line, namespace, strict, self.originals) for line in lines]
        if strict or judged[0].problems or not answer.may_parse_again:
            sure = _ends_at_refusals(parser) and not may_catch_exit(self.folder)
            answer.settle("argparse", judged, strict, sure)
        answer.leave_over("argparse", judged)
        return original(parser, args, namespace)


def _ends_at_refusals(parser: Any) -> bool:
    """Tell whether nothing of the script's own decides what becomes of a refusal."""
    own_exit = type(parser).exit is not argparse.ArgumentParser.exit
    return not own_exit and bool(getattr(parser, "exit_on_error", True))


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
            if rest and strict:
                parser.error("unrecognized arguments: " + " ".join(rest))
    except Refused as refusal:
        return Judged(explain(parser, line, str(refusal), refusal.flag), [])
    except SystemExit as end:
        return Judged(explain(parser, line, "it ends with exit code %s" % end.code), [])
    except Exception as error:
        said = "%s: %s" % (type(error).__name__, error)
        return Judged(explain(parser, line, said) if line else [], [])
    return Judged([], list(rest))


class _Disarmed:
    """A parser, and those of its subcommands, whose refusal is raised and that opens no file."""

    def __init__(self, parser: Any) -> None:
        self.parsers = list(list_parsers(parser))
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
            refusal = Refused(message)
            refusal.flag = _find_named(sys.exc_info()[1])
            if own is not argparse.ArgumentParser.error:
                try:
                    own(parser, message)
                except BaseException:
                    raise refusal from None
                return  # a parser that goes on all the same
            raise refusal

        return error


def _find_named(error: Any) -> str:
    """Return the flag that an error of argparse is about, empty if none."""
    named = str(getattr(error, "argument_name", None) or "").split("/")
    flags = [name for name in named if name.startswith("--")]
    return max(flags, key=len) if flags else ""
