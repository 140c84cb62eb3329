"""A command line that is wrong: Typer says what is, and here it is found what was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from typer.core import TyperGroup
from typer.exceptions import TyperException

from deployer.cli.shell.examples import EXAMPLES
from deployer.errors import DeployerError, ExitCode

ROOT = "deployer"
PREFIX = "Value error, "  # pydantic's, before a sentence of Typer's
MOST_COMMANDS = 3  # in one hint


class UsageError(DeployerError):
    """The command line itself is wrong."""

    exit_code = ExitCode.WRONG_INPUT
    code = "usage"


def build_usage_error(error: TyperException) -> UsageError:
    """Return what to say of a command line that Typer refuses: its sentence, and what is meant."""
    context: Any = getattr(error, "ctx", None)
    said = error.format_message()
    if hasattr(error, "possibilities"):  # Typer names flags that are as near as ours
        said = error.message
    hint = _find_hint(error, context) or f"{context.command_path if context else ROOT} --help"
    return UsageError(said.replace(PREFIX, "").rstrip("."), hint)


def _find_hint(error: Any, context: Any) -> str:
    """Return what was probably meant, or an example; empty if nobody knows."""
    if hint := getattr(error, "hint", ""):
        return str(hint)
    parameter = getattr(error, "param", None)
    if hasattr(error, "possibilities"):
        if error.option_name[1:].isdigit():  # -1 looks like an option
            return "the number must not be negative"
        if not error.option_name.startswith("--"):
            return ""
        flags = [flag for one in context.command.params for flag in one.opts if flag[:2] == "--"]
        flags = [flag for flag in flags if flag != "--yes"]  # nothing to be typed by mistake
        return _name_near(error.option_name, flags)
    if hasattr(error, "param_type"):  # it is missing
        examples = EXAMPLES.get(tuple(context.command_path.split()[1:]), ())
        return f"{ROOT} {examples[0]}" if examples else ""
    if parameter and parameter.type_descriptor.choices and hasattr(error.__cause__, "errors"):
        return _name_near(error.__cause__.errors()[0]["input"], parameter.type_descriptor.choices)
    if context and isinstance(context.command, TyperGroup) and error.message == "Missing command.":
        return f"one of: {', '.join(context.command.list_commands(context))}"
    return ""


def _name_near(word: object, known: Iterable[object]) -> str:
    near = difflib.get_close_matches(str(word), map(str, known), n=1)
    return f"did you mean `{near[0]}`?" if near else ""


def require_command(group: Any, context: Any, words: Sequence[str]) -> None:
    """Check that the first word names a command of a group, or is a flag; raises UsageError."""
    name = words[0]
    if name.startswith("-") or context.resilient_parsing or group.get_command(context, name):
        return
    hint = _near_command(name, context.command_path, group.list_commands(context))
    raise UsageError(f"No such command '{name}'", hint)


def _near_command(name: str, path: str, known: Iterable[str]) -> str:
    """Name the nearest command of the group, else those of that name elsewhere."""
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"did you mean `{path} {near[0]}`?"
    elsewhere = [words for words in EXAMPLES if len(words) > 1 and words[-1] == name]
    found = [f"`{ROOT} {' '.join(words)}`" for words in elsewhere[:MOST_COMMANDS]]
    return f"did you mean {' or '.join(found)}?" if found else f"{path} --help"
