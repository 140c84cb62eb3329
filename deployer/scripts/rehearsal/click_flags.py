"""click and typer: what a command says of command lines, before its function is called."""

import sys
from typing import Any, Dict, Iterator, List

from .answer import Answer, Judged, Words
from .sources import find_definition

MODULES = ("click.core", "typer.core")
KINDS = {
    "NoSuchOption": "unknown",
    "MissingParameter": "missing",
    "BadOptionUsage": "no_value",
    "BadParameter": "type",
}
Problem = Dict[str, Any]


def watch(module: Any, answer: Answer, folder: str) -> None:
    """Take the place of `main` in the classes of commands of a module."""
    for one in list(vars(module).values()):
        if isinstance(one, type) and "main" in vars(one) and hasattr(one, "make_context"):
            one.main = _make_main(one.main, answer, folder)  # type: ignore[attr-defined]


def _make_main(original: Any, answer: Answer, folder: str) -> Any:
    def main(self: Any, args: Any = None, prog_name: Any = None, *more: Any, **extra: Any) -> Any:
        words = sys.argv[1:] if args is None else [str(word) for word in args]
        lines = answer.find_lines(words)
        if lines is None:
            if answer.may_parse_again:
                return original(self, args, prog_name, *more, **extra)
            answer.end("it parses other words than those of its command line")
            return None
        answer.add_flags(list(describe_flags(self, folder)))
        kind = type(self).__module__.split(".")[0]
        judged = [Judged(list_problems(self, line, folder), []) for line in lines]
        answer.settle(kind if kind in ("click", "typer") else "click", judged, True)
        return None

    return main


def list_problems(command: Any, line: Words, folder: str) -> List[Problem]:
    """Return what is wrong with a command line, one flag after another."""
    found: List[Problem] = []
    for _ in range(len(line) + 1):
        try:
            _parse(command, line)
            return found
        except Exception as error:
            names = [one.__name__ for one in type(error).__mro__]
            if "UsageError" not in names:
                # An exit is that of --help or --version; other errors say nothing of flags.
                gone = "Exit" in names or "Abort" in names
                said = "it ends without a run" if gone else "%s: %s" % (names[0], error)
                return [*found, {"kind": "unclear", "flag": "", "said": said}]
            problem = _describe(error, names, line, folder)
            found.append(problem)
            shorter = _without(line, problem["flag"])
            if shorter == line:
                return found
            line = shorter
    return found


def _parse(command: Any, line: Words, parent: Any = None, name: str = "") -> None:
    """Read the words of a command, then those of its subcommand."""
    with command.make_context(name or "script", list(line), parent=parent) as context:
        if not hasattr(command, "resolve_command"):
            return
        first = getattr(context, "_protected_args", None)
        if first is None:
            first = getattr(context, "protected_args", [])
        rest = [*first, *context.args]
        if rest:
            name, inner, words = command.resolve_command(context, rest)
            _parse(inner, words, context, name)


def _describe(error: Any, names: List[str], line: Words, folder: str) -> Problem:
    kind = next((KINDS[name] for name in names if name in KINDS), "refused")
    param = getattr(error, "param", None)
    options = list(getattr(param, "opts", None) or [])
    flag = getattr(error, "option_name", None) or (max(options, key=len) if options else "")
    given = [word.partition("=")[2] for word in line if word.partition("=")[0] in [flag, *options]]
    after = [new for old, new in zip(line, line[1:]) if old in [flag, *options]]
    value, choices = (given or after or [""])[0], _list_choices(param)
    if kind == "type" and choices:
        kind = "choice"
    if kind == "no_value" and not any(given):
        kind = "refused"
    path, number = find_definition(folder, options or [flag]) if flag else ("", 0)
    return {
        "kind": kind,
        "flag": flag,
        "names": options,
        "type": _name_type(param),
        "choices": choices,
        "value": value,
        "words": _say_bounds(_name_type(param), value, error),
        "near": [],
        "file": path,
        "line": number,
        "said": "it needs the name of a command"
        if "NoArgsIsHelpError" in names
        else error.format_message()
        if hasattr(error, "format_message")
        else str(error),
    }


def _say_bounds(kind: str, value: str, error: Any) -> str:
    """Return the parser's own words on a number that is one, and is refused all the same."""
    try:
        {"int": int, "float": float}[kind](value)
    except (KeyError, ValueError):
        return ""
    return str(getattr(error, "message", None) or "").rstrip(".")


def _name_type(param: Any) -> str:
    """Return the type of an option as Python names it."""
    described = getattr(param, "type_descriptor", None)  # typer from 0.29 on
    if described is not None:
        return str(getattr(described.annotation, "__name__", ""))
    name = str(getattr(getattr(param, "type", None), "name", "") or "")
    words = {"integer": "int", "boolean": "bool", "text": "str"}
    return words.get(name, name.split(" ")[0])


def _list_choices(param: Any) -> List[str]:
    described = getattr(param, "type_descriptor", None) or getattr(param, "type", None)
    return [str(getattr(one, "value", one)) for one in getattr(described, "choices", None) or []]


def _without(line: Words, flag: str) -> Words:
    """Return a command line without a flag and its value."""
    kept: Words = []
    words = list(line)
    while words:
        word = words.pop(0)
        if not flag or word.partition("=")[0] != flag:
            kept.append(word)
        elif "=" not in word and words and not words[0].startswith("--"):
            words.pop(0)
    return kept


def describe_flags(command: Any, folder: str) -> Iterator[Dict[str, Any]]:
    """Yield what is known of each option, those of subcommands included."""
    for param in getattr(command, "params", []):
        options = list(getattr(param, "opts", None) or [])
        if not any(one.startswith("-") for one in options):
            continue
        path, line = find_definition(folder, options)
        default = getattr(param, "default", None)
        plain = isinstance(default, (bool, int, float, str, type(None)))
        secondary = list(getattr(param, "secondary_opts", None) or [])
        yield {
            "names": sorted(options, key=len, reverse=True),
            "type": _name_type(param),
            "choices": _list_choices(param),
            "default": default if plain else None,
            "required": bool(getattr(param, "required", False)),
            "takes_value": not getattr(param, "is_flag", False),
            "many": bool(getattr(param, "multiple", False)),
            "constant": True if getattr(param, "is_flag", False) else None,
            "paired": bool(secondary),
            "help": getattr(param, "help", "") or "",
            "file": path,
            "line": line,
            "own": bool(path),
        }
    for inner in (getattr(command, "commands", None) or {}).values():
        yield from describe_flags(inner, folder)
