"""docs/reference.md, made from the code: `python -m tests.docs.reference` writes it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from typer import Context

from deployer import errors
from deployer.cli.shell.options import list_options
from deployer.config.settings import build_schema
from deployer.errors import DeployerError
from deployer.executors.registry import list_names
from tests.docs.commands import Words, is_group, list_commands
from tests.docs.environment import GROUPS

PATH = Path(__file__).parents[2] / "docs" / "reference.md"
HEAD = """# Reference

Every command, setting of `deployer.yaml`, environment variable and exit code. This file is made
from the code: `python -m tests.docs.reference` writes it.

A DURATION is a number with a unit: `30s`, `90m`, `2h` or `1d`. A SWEEP is
`ENTITY/PROJECT/SWEEP_ID`, a short id or an address; the default is the newest sweep started in the
current folder. An EXECUTOR is where agents run: `local`, `kubernetes` or `gke`. A FILE is a
[W&B sweep file](https://docs.coreweave.com/products/wandb/sweeps/sweep-config-keys).

`deployer --install-completion` adds shell completion of commands, and of this machine's sweeps
and agents.
"""
EXIT_RULE = """\
1 and 2 mean that a command failed, or did only a part of its work. 3 and 4 concern a sweep whose
agents were started. So if a cluster can never run the agents, `up` exits with 1 if the cluster
refuses them in advance, and with 3 if it fails to start them.
"""
CODES = {0: "The command did what it was asked.", 130: "Ctrl-C."}


def build_reference() -> str:
    """Return the whole text."""
    parts = [HEAD, *_list_commands(), *_list_settings(), *_list_variables(), *_list_exit_codes()]
    return "\n".join(parts)


def _list_commands() -> Iterator[str]:
    yield "## Options that commands share\n"
    yield (
        "They work anywhere in the command line before `--`. The help of a command lists the "
        "shared options that it takes.\n"
    )
    yield _list_rows(list_options(), Context(list_commands()[()]))
    yield "## Commands\n"
    for words, command in list_commands().items():
        if words and not is_group(command):
            yield from _describe_command(words, command)


def _describe_command(words: Words, command: Any) -> Iterator[str]:
    above = Context(list_commands()[()], info_name="deployer")
    context = Context(command, parent=above, info_name=" ".join(words))
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"### deployer {' '.join(words)}\n"
    yield f"`deployer {' '.join(words)} {_join_usage(usage)}`\n"
    yield f"{inspect.cleandoc(command.help)}\n"
    if rows := _list_rows(command.params, context):
        yield rows


def _list_rows(parameters: Iterable[Any], context: Context) -> str:
    """Return a table of what the help has of parameters; empty if it has none of them."""
    records = filter(None, (one.get_help_record(context) for one in parameters))
    rows = [(f"`{name}`", meaning) for name, meaning in records]
    return _build_table(("argument or flag", "meaning"), rows) if rows else ""


def _join_usage(usage: str) -> str:
    """Return a usage line without the braces that typer puts around what is required."""
    return re.sub(r"\{(\w+)\}", r"\1", usage)


def _list_settings() -> Iterator[str]:
    schema = build_schema(list_names())
    yield "## Settings of deployer.yaml\n"
    yield (
        "`deployer` reads the file in the current folder. Flags override environment variables, "
        "and these override the file. `k8s/agent.yaml` has the defaults for `kubernetes:`. An "
        "editor that supports JSON schemas completes and checks the file with "
        "`deployer/config/deployer.schema.json`.\n"
    )
    yield _build_table(
        ("setting", "value", "default", "meaning"),
        [
            (f"`{name}`", _name_kind(one), _name_default(one), one.get("description", ""))
            for name, one in list_settings(schema["properties"], schema["$defs"])
        ],
    )


def list_settings(
    properties: Mapping[str, Any], definitions: Mapping[str, Any], above: str = ""
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each setting with its path, such as `kubernetes.volumes[].name`, and its schema."""
    for name, one in properties.items():
        path = f"{above}{name}"
        yield path, one
        yield from list_settings(one.get("properties", {}), definitions, f"{path}.")
        for reference, mark in _find_references(one):
            inner = definitions[reference.rsplit("/", 1)[1]]
            yield from list_settings(inner["properties"], definitions, f"{path}{mark}.")


def _find_references(one: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the definitions that a setting refers to, and what stands for its place in a path."""
    for choice in (one, *one.get("anyOf", ())):
        if "$ref" in choice:
            yield choice["$ref"], ""
    if "$ref" in one.get("items", {}):
        yield one["items"]["$ref"], "[]"
    inner = one.get("additionalProperties")
    if isinstance(inner, dict) and "$ref" in inner:
        yield inner["$ref"], ".NAME"


def _name_kind(one: Mapping[str, Any]) -> str:
    choices = [choice for choice in one.get("anyOf", [one]) if choice.get("type") != "null"]
    return ", ".join(dict.fromkeys(_name_choice(choice) for choice in choices))


def _name_choice(choice: Mapping[str, Any]) -> str:
    if "const" in choice:
        return f"`{choice['const']}`"
    if "enum" in choice:
        return ", ".join(f"`{value}`" for value in choice["enum"])
    if "$ref" in choice or choice["type"] == "object":
        return "mapping"
    if str(choice.get("pattern", "")).endswith("([smhd])$"):
        return "duration"
    kinds = {"string": "text", "integer": "number", "number": "number", "array": "list"}
    return kinds.get(choice["type"], "true or false")


def _name_default(one: Mapping[str, Any]) -> str:
    value = one.get("default")
    shown = str(value).lower() if isinstance(value, bool) else value
    return "" if value in (None, "", []) else f"`{shown}`"


def _list_variables() -> Iterator[str]:
    yield "## Environment variables\n"
    for title, group in GROUPS.items():
        yield f"### {title}\n"
        yield _build_table(
            ("variable", "meaning"),
            [
                (", ".join(f"`{n}`" for n in names.split(", ")), text)
                for names, text in group.items()
            ],
        )


def _list_exit_codes() -> Iterator[str]:
    yield "## Exit codes\n"
    yield EXIT_RULE
    words: dict[int, list[str]] = {code: [text] for code, text in CODES.items()}
    for kind in list_errors():
        summary = (inspect.getdoc(kind) or "").split("\n\n")[0]
        words.setdefault(kind.exit_code, []).append(summary)
    words.setdefault(1, []).append("A bug: the traceback is shown.")
    rows = [(f"`{code}`", "<br>".join(words[code])) for code in sorted(words)]
    yield _build_table(("code", "meaning"), rows)


def list_errors() -> list[type[DeployerError]]:
    """Return every error of errors.py that a user may meet."""
    found = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    return [kind for kind in found if DeployerError in kind.__bases__]


def _build_table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(_fit_cell, line))} |" for line in lines) + "\n"


def _fit_cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


if __name__ == "__main__":
    PATH.write_text(build_reference())
