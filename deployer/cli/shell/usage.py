"""Hints for a wrong or removed command line: the likely intention, with an example."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from typer.core import TyperGroup
from typer.exceptions import TyperException

from deployer.errors import DeployerError, ExitCode

CommandWords = tuple[str, ...]
# Commands as the user types them; a test parses each of them.
EXAMPLES: dict[CommandWords, tuple[str, ...]] = {
    ("init",): ("init train.py", "init --from me/digits/ab12cd34 --yes"),
    ("up",): (
        "up sweep.yaml --replicas 2",
        "up sweep.yaml --on kubernetes --replicas 8",
    ),
    ("run",): (
        "run -- python train.py --lr 0.1",
        "run --on kubernetes --detach -- torchrun train.py --epochs 90",
    ),
    ("plan",): ("plan sweep.yaml --on kubernetes --replicas 4",),
    ("doctor",): ("doctor", "doctor sweep.yaml --on kubernetes"),
    ("watch",): ("watch", "watch me/digits/ab12cd34 --plain"),
    ("results",): ("results", "results ab12cd34 -o csv"),
    ("results", "get"): ("results get --best", "results get --to s3://bucket/models"),
    ("importance",): ("importance", "importance ab12cd34 --metric val_loss -o json"),
    ("report",): ("report --to report.html", "report ab12cd34 --to report.md"),
    ("heal",): ("heal", "heal ab12cd34 --replicas 2"),
    ("down",): ("down", "down --all"),
    ("sweep", "check"): ("sweep check sweep.yaml", "sweep check --strict a.yaml b.yaml"),
    ("sweep", "import"): ("sweep import sets.csv --metric loss --to sweep.yaml",),
    ("sweep", "export"): ("sweep export sweep.yaml --to sets.csv",),
    ("sweep", "create"): ("sweep create sweep.yaml --run-cap 20",),
    ("sweep", "list"): ("sweep list", "sweep list --project digits -o json"),
    ("sweep", "show"): ("sweep show ab12cd34",),
    ("sweep", "pause"): ("sweep pause",),
    ("sweep", "resume"): ("sweep resume",),
    ("sweep", "stop"): ("sweep stop ab12cd34",),
    ("sweep", "cancel"): ("sweep cancel ab12cd34",),
    ("sweep", "delete"): ("sweep delete me/digits/ab12cd34 --yes",),
    ("agents", "up"): ("agents up --replicas 4",),
    ("agents", "list"): ("agents list",),
    ("agents", "scale"): ("agents scale 2",),
    ("agents", "drain"): ("agents drain --agent ab12cd34-a1",),
    ("agents", "logs"): ("agents logs -f", "agents logs ab12cd34 --agent ab12cd34-a1"),
    ("agents", "down"): ("agents down",),
    ("data", "put"): (
        "data put ./mnist mnist",
        "data put s3://bucket/mnist.tar.gz mnist --on kubernetes",
    ),
    ("data", "get"): ("data get mnist --to ./mnist",),
    ("data", "preload"): ("data preload --on kubernetes",),
    ("data", "list"): ("data list",),
    ("data", "delete"): ("data delete mnist",),
    ("secret", "set"): ("secret set", "secret set --namespace research --key-stdin"),
    ("secret", "show"): ("secret show",),
    ("secret", "delete"): ("secret delete",),
    ("rights",): ("rights agents --user ann",),
    ("drivers", "status"): ("drivers status",),
    ("drivers", "install"): (
        "drivers install",
        "drivers install --device-plugin --node-selector gpu=yes",
    ),
    ("drivers", "remove"): ("drivers remove",),
    ("image", "push"): ("image push", "image push --rebuild"),
    ("image", "save"): ("image save image.tar",),
    ("image", "load"): ("image load image.tar",),
    ("gke", "plan"): ("gke plan", "gke plan l4-spot -o json"),
    ("gke", "up"): ("gke up", "gke up l4-spot --wait-for-capacity 2h"),
    ("gke", "down"): ("gke down",),
    ("gke", "list"): ("gke list",),
    ("orphans",): ("orphans", "orphans --project my-project --min-age 1d --yes"),
    ("backend", "serve"): ("backend serve --port 8080",),
    ("backend", "up"): ("backend up",),
    ("backend", "status"): ("backend status",),
    ("backend", "down"): ("backend down",),
    ("backend", "env"): ("backend env",),
    ("backend", "open"): ("backend open", "backend open --on kubernetes"),
    ("backend", "copy"): ("backend copy --on kubernetes --data ./backend",),
    ("backend", "user", "add"): (
        "backend user add ann --label laptop",
        "backend user add ann --key-stdin",
    ),
    ("backend", "user", "list"): ("backend user list",),
    ("backend", "user", "remove"): (
        "backend user remove ann",
        "backend user remove ann 1f0c9a3e",
    ),
}
ROOT = "deployer"
PREFIX = "Value error, "  # pydantic's prefix of Typer's message
MOST_COMMANDS = 3  # in a hint


def add_examples(command: Any, words: CommandWords) -> None:
    if shown := EXAMPLES.get(words):
        lines = "\n".join(f"  deployer {example}" for example in shown)
        command.epilog = f"\b\nExamples:\n{lines}"
    for name, one in getattr(command, "commands", {}).items():
        add_examples(one, (*words, name))


class UsageError(DeployerError):
    """The command line itself is wrong."""

    exit_code = ExitCode.WRONG_INPUT
    code = "usage"


def build_usage_error(error: TyperException) -> UsageError:
    """Return the error for a command line that Typer rejects: its sentence, and a hint."""
    context: Any = getattr(error, "ctx", None)
    said = error.format_message()
    if hasattr(error, "possibilities"):  # Typer's own suggestions
        said = error.message
    hint = _find_hint(error, context) or f"{context.command_path if context else ROOT} --help"
    return UsageError(said.replace(PREFIX, "").rstrip("."), hint)


def _find_hint(error: Any, context: Any) -> str:
    """Return the likely intention, or an example; empty if unknown."""
    if hint := getattr(error, "hint", ""):
        return str(hint)
    parameter = getattr(error, "param", None)
    if hasattr(error, "possibilities"):
        if error.option_name[1:].isdigit():  # -1 looks like an option
            return "the number must not be negative"
        if not error.option_name.startswith("--"):
            return ""
        flags = [flag for one in context.command.params for flag in one.opts if flag[:2] == "--"]
        flags = [flag for flag in flags if flag != "--yes"]  # never suggest it by mistake
        return _name_near(error.option_name, flags)
    if hasattr(error, "param_type"):  # an argument is missing
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
    """Check that the first word is a command of the group, or a flag; raises UsageError."""
    name = words[0]
    if name.startswith("-") or context.resilient_parsing or group.get_command(context, name):
        return
    hint = _near_command(name, context.command_path, group.list_commands(context))
    raise UsageError(f"No such command '{name}'", hint)


def _near_command(name: str, path: str, known: Iterable[str]) -> str:
    """Name the nearest command of the group, else commands of that name elsewhere."""
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"did you mean `{path} {near[0]}`?"
    elsewhere = [words for words in EXAMPLES if len(words) > 1 and words[-1] == name]
    found = [f"`{ROOT} {' '.join(words)}`" for words in elsewhere[:MOST_COMMANDS]]
    return f"did you mean {' or '.join(found)}?" if found else f"{path} --help"
