"""argparse: what is known of each flag, and where it is defined."""

import argparse
from typing import Any, Dict, Iterator, List

PLACE = "_deployer_place"
OWN = "_deployer_own"


def list_parsers(parser: Any) -> Iterator[Any]:
    """Yield a parser and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in dict.fromkeys(action.choices.values()):
                yield from list_parsers(inner)


def describe_flags(parser: Any) -> Iterator[Dict[str, Any]]:
    """Yield what is known of each flag, those of subcommands included."""
    for one in list_parsers(parser):
        for action in one._actions:
            if not action.option_strings or isinstance(action, argparse._HelpAction):
                continue
            path, line = getattr(action, PLACE, ("", 0))
            kind = action.type
            yield {
                "names": sorted(action.option_strings, key=len, reverse=True),
                "type": name_type(kind),
                "choices": list_choices(action),
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


def name_type(kind: Any) -> str:
    """Return the name of a flag's type, empty without one."""
    return "" if kind is None else str(getattr(kind, "__name__", type(kind).__name__))


def list_choices(action: Any) -> List[Any]:
    """Return what a flag takes, empty if anything."""
    try:
        return [] if action.choices is None else [_plain(one) for one in action.choices][:1000]
    except TypeError:
        return []


def _plain(value: Any) -> Any:
    known = (bool, int, float, str, type(None))
    return value if isinstance(value, known) else str(value)
