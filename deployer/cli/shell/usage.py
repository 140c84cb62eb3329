"""A command line that is wrong, said as any other error: which word, why, and what to type.

Typer says what is wrong by kinds of exceptions; by these, and by pydantic's, it is told here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from typer.exceptions import TyperException

from deployer.cli.shell.dropped import INSTEAD
from deployer.cli.shell.examples import EXAMPLES
from deployer.errors import DeployerError, ExitCode

ROOT = "deployer"
STRAY = "Got unexpected extra argument(s)"
MOST_COMMANDS = 3  # in one hint
# What pydantic, by which Typer reads values, calls a value that is wrong; how we say it.
WRONG_VALUES = {
    "int_parsing": "is not a whole number",
    "float_parsing": "is not a number",
    "greater_than_equal": "is below {ge}",
    "less_than_equal": "is above {le}",
}


class UsageError(DeployerError):
    """The command line itself is wrong."""

    exit_code = ExitCode.WRONG_INPUT
    code = "usage"


def build_usage_error(error: TyperException, words: Sequence[str]) -> UsageError:
    """Return what to say of a command line that Typer refuses."""
    context: Any = getattr(error, "ctx", None)
    command = context.command_path if context else _find_command(words)
    help_hint = f"{command} --help"
    option = getattr(error, "option_name", "")
    if hasattr(error, "possibilities"):
        return _unknown_option(str(option), context, help_hint)
    if option:
        given_one = any(word.startswith(f"{option}=") for word in words)
        return UsageError(f"{option}: {'takes no' if given_one else 'needs a'} value", help_hint)
    parameter: Any = getattr(error, "param", None)
    if parameter is None:
        return _stray_words(error, context, help_hint)
    if hasattr(error, "param_type"):
        examples = EXAMPLES.get(tuple(command.split()[1:]), ())
        hint = f"{ROOT} {examples[0]}" if examples else help_hint
        return UsageError(f"{_name(parameter, None)}: is missing", hint)
    return _wrong_value(error, parameter, context, help_hint)


def require_command(group: Any, context: Any, words: Sequence[str]) -> None:
    """Check that the first word names a command of a group, or is a flag; raises UsageError."""
    name = words[0]
    if name.startswith("-") or context.resilient_parsing or group.get_command(context, name):
        return
    if dropped := find_dropped(context, name):
        raise dropped
    hint = _near_command(name, context.command_path, group.list_commands(context))
    raise UsageError(f"{name}: there is no such command", hint)


def find_dropped(context: Any, words: str) -> UsageError | None:
    """Return what to say of words that the command once had; None if it never had them."""
    line = f"{context.command_path} {words}".removeprefix(f"{ROOT} ")
    if line not in INSTEAD:
        return None
    return UsageError(f"{ROOT} {line}: is no longer there", INSTEAD[line])


def _near_command(name: str, path: str, known: Iterable[str]) -> str:
    """Name the nearest command of the group, else those of that name elsewhere."""
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"did you mean `{path} {near[0]}`?"
    elsewhere = [words for words in EXAMPLES if len(words) > 1 and words[-1] == name]
    found = [f"`{ROOT} {' '.join(words)}`" for words in elsewhere[:MOST_COMMANDS]]
    return f"did you mean {' or '.join(found)}?" if found else f"{path} --help"


def _unknown_option(option: str, context: Any, help_hint: str) -> UsageError:
    if option[1:].isdigit():  # -1 looks like an option
        return UsageError(f"{option}: is below zero, which no number here may be", help_hint)
    if dropped := find_dropped(context, option):
        return dropped
    known = [o for parameter in context.command.params for o in parameter.opts if o[0] == "-"]
    near = difflib.get_close_matches(option, known, n=1) if option.startswith("--") else ()
    hint = f"did you mean `{near[0]}`?" if near else help_hint
    return UsageError(f"{option}: there is no such flag", hint)


def _stray_words(error: TyperException, context: Any, help_hint: str) -> UsageError:
    """Return what to say of a group without a command, or of words that nobody asked for."""
    commands = getattr(context and context.command, "list_commands", None)
    if commands:
        return UsageError(
            f"{context.command_path}: a command is missing",
            f"one of: {', '.join(commands(context))}",
        )
    if context and (dropped := find_dropped(context, "FILE SWEEP")):
        return dropped
    said = error.format_message().rstrip(".").replace(STRAY, "more words than it takes:")
    return UsageError(f"{context.command_path}: {said}" if context else said, help_hint)


def _wrong_value(error: TyperException, parameter: Any, context: Any, help_hint: str) -> UsageError:
    place = _name(parameter, context)
    choices = [str(choice) for choice in parameter.type_descriptor.choices or ()]
    details = getattr(error.__cause__, "errors", None)
    if details is None:
        return UsageError(f"{place}: {error.message}", getattr(error, "hint", "") or help_hint)
    first = details()[0]
    said = f"'{first['input']}'"
    if choices:
        if dropped := find_dropped(context, f"{parameter.opts[-1]} {first['input']}"):
            return dropped
        near = difflib.get_close_matches(str(first["input"]), choices, n=1)
        hint = f"did you mean `{near[0]}`?" if near else help_hint
        return UsageError(f"{place}: {said} is not one of {', '.join(choices)}", hint)
    why = "is not a number" if said == "'nan'" else WRONG_VALUES.get(first["type"])
    if why is None:
        return UsageError(f"{place}: {error.message}", help_hint)
    return UsageError(f"{place}: {said} {why.format(**first.get('ctx', {}))}", help_hint)


def _name(parameter: Any, context: Any) -> str:
    """Return how the user knows a parameter: its variable if the value came from there."""
    source = context.get_parameter_source(parameter.name) if context else None
    if source is not None and source.name == "ENVIRONMENT":
        return str(parameter.envvar)
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    return str(parameter.opts[0])


def _find_command(words: Sequence[str]) -> str:
    """Return the command that the first words name."""
    known = {part[:count] for part in EXAMPLES for count in (1, 2, 3)}
    count = max(n for n in range(4) if n == 0 or tuple(words[:n]) in known)
    return " ".join([ROOT, *words[:count]])
