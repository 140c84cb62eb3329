"""absl: what its flags say of command lines."""

import os
import sys
from typing import Any, Dict, Iterator

from .answer import Answer, Judged, Words
from .sources import find_definition

MODULES = ("absl.flags._flagvalues",)
TYPES = {"IntegerParser": "int", "FloatParser": "float", "BooleanParser": "bool"}
Problem = Dict[str, Any]


def watch(module: Any, answer: Answer, folder: str) -> None:
    """Take the place of what reads `FLAGS(argv)`, which `app.run` calls too."""
    values = module.FlagValues
    original = values.__call__

    def call(self: Any, argv: Any, known_only: bool = False) -> Any:
        lines = answer.find_lines([str(word) for word in argv[1:]])
        if lines is None:
            if answer.may_parse_again:
                return original(self, argv, known_only)
            answer.end("it parses other words than those of its command line")
            return None
        answer.add_flags(list(describe_flags(self, folder)))
        judged = [_judge(self, argv[0], line, known_only, original, folder) for line in lines]
        answer.settle("absl", judged, not known_only)
        return None

    values.__call__ = call


def _judge(
    flags: Any, program: str, line: Words, known_only: bool, original: Any, folder: str
) -> Judged:
    try:
        rest = original(flags, [program, *line], known_only)
    except Exception as error:
        found = list(list_problems(flags, line, folder))
        said = "%s: %s" % (type(error).__name__, error)
        named = "absl" in type(error).__module__
        kind = "refused" if named else "unclear"
        return Judged(found or [{"kind": kind, "flag": "", "said": str(error) or said}], [])
    finally:
        flags.unparse_flags()
        for name in flags:
            flags[name].unparse()
    return Judged([], list(rest[1:]) if known_only else [])


def list_problems(flags: Any, line: Words, folder: str) -> Iterator[Problem]:
    """Yield a problem for each flag that a refusal may be about."""
    for index, word in enumerate(line):
        if not word.startswith("--") or word == "--":
            continue
        name, equals, value = word[2:].partition("=")
        known = name in flags
        if not known and name.startswith("no") and name[2:] in flags:
            continue
        if not known:
            yield {"kind": "unknown", "flag": "--" + name, "value": value, "near": []}
            continue
        flag = flags[name]
        if not equals and not getattr(flag, "boolean", False):
            value = line[index + 1] if index + 1 < len(line) else ""
        elif not equals:
            continue
        yield from _read_value(flag, name, value, folder)


def _read_value(flag: Any, name: str, value: str, folder: str) -> Iterator[Problem]:
    try:
        flag.parser.parse(value)
    except Exception:
        path, line = find_definition(folder, [name])
        choices = list(getattr(flag.parser, "enum_values", None) or [])
        yield {
            "kind": "choice" if choices else "type",
            "flag": "--" + name,
            "names": ["--" + name],
            "type": TYPES.get(type(flag.parser).__name__, ""),
            "choices": choices,
            "value": value,
            "file": path,
            "line": line,
        }


def describe_flags(flags: Any, folder: str) -> Iterator[Dict[str, Any]]:
    """Yield what is known of each flag that the project's own modules define."""
    for module, owned in flags.flags_by_module_dict().items():
        file = getattr(sys.modules.get(module, sys.modules["__main__"]), "__file__", "") or ""
        if "site-packages" in file:
            continue
        for flag in owned:
            path, line = find_definition(folder, [flag.name])
            if not path and not os.path.realpath(file).startswith(folder):
                continue
            boolean = bool(getattr(flag, "boolean", False))
            default = flag.default
            plain = isinstance(default, (bool, int, float, str, type(None)))
            yield {
                "names": ["--" + flag.name],
                "type": "bool" if boolean else TYPES.get(type(flag.parser).__name__, ""),
                "choices": list(getattr(flag.parser, "enum_values", None) or []),
                "default": default if plain else None,
                "required": False,
                "takes_value": True,
                "many": False,
                "constant": None,
                "paired": False,
                "help": flag.help or "",
                "file": path,
                "line": line,
                "own": bool(path),
            }
