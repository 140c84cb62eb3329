"""A sweep's command: what `wandb agent` would start, and what is wrong or doubtful about it.

Macros are those of `create_sweep_command_args` in wandb/sdk/launch/sweeps/utils.py and of
`_command_run` in wandb/wandb_agent.py. An agent leaves out a macro that it does not know, silently.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deployer.errors import ConfigError
from deployer.sweeps.parameters.keys import shown
from deployer.sweeps.parameters.parse import Problem

DEFAULT_COMMAND = ("${env}", "${interpreter}", "${program}", "${args}")
PARAMETER_MACROS = (
    "${args}",
    "${args_no_equals}",
    "${args_no_hyphens}",
    "${args_no_boolean_flags}",
    "${args_json}",
    "${args_json_file}",
    "${args_dict}",
    "${args_append_hydra}",
    "${args_override_hydra}",
)
MACROS = (*DEFAULT_COMMAND[:3], *PARAMETER_MACROS)
ENVIRONMENT_MACRO = re.compile(r"\$\{envvar:([A-Z0-9_]*)\}")
RUNNERS = ("program", "job", "image_uri")
# Flags of Python that take no word of their own, so that the script follows.
PLAIN_FLAG = re.compile(r"-[bBdEiIOPqsSuvx]+")
PYTHON = re.compile(r"(.*/)?python[0-9.]*")


def check_command(config: Mapping[str, Any]) -> Iterator[Problem]:
    """Complain about a `command` that is no list of words, and about its macros; pure."""
    command, runs = config.get("command"), any(key in config for key in RUNNERS)
    if not command and (command == [] or "command" not in config):
        return
    if not isinstance(command, list):
        hint = "write a list: [python, train.py, '${args}']"
        yield Problem(("command",), f"{shown(command)} is not a list", hint)
        return
    for index, word in enumerate(command):
        path = ("command", f"[{index}]")
        if isinstance(word, bool) or not isinstance(word, str | int | float):
            yield Problem(path, f"{shown(word)} is not text", "put the word in quotes")
        else:
            yield from _check_macro(path, str(word))
    if "${program}" in command and not runs:
        hint = "add program: train.py, or write the script's name in command"
        yield Problem(("program",), "missing, and command uses ${program}", hint)
    if config.get("parameters") and not any(macro in command for macro in PARAMETER_MACROS):
        message = "no ${args}: a script that does not read wandb.config runs the same every time"
        yield Problem(("command",), message, "add '${args}' as a word of its own", "warning")


def _check_macro(path: tuple[str, ...], word: str) -> Iterator[Problem]:
    if not (word.startswith("${") and word.endswith("}")) or word in MACROS:
        return
    if ENVIRONMENT_MACRO.search(word):
        return
    near = difflib.get_close_matches(word, MACROS, n=1)
    known = f"one of: {', '.join(MACROS)}, ${{envvar:NAME}}"
    said = f"{word} is no macro, so the agent would leave it out"
    yield Problem(path, said, f"did you mean {near[0]}?" if near else known)


def check_program(config: Mapping[str, Any], folder: Path, place: str, commit: str = "") -> None:
    """Raise ConfigError where the file that the command starts is not in the project folder.

    `place` names the sweep's file, or the sweep; `commit` is that of a folder from git. What
    cannot be told, such as a module or a program on the PATH, is not complained about.
    """
    for key, name in _list_scripts(config):
        path = folder / name
        if path.is_file():
            continue
        where = f"at commit {commit}" if commit else f"in {folder}"
        what = "is a folder" if path.is_dir() else f"there is no such file {where}"
        raise ConfigError(f"{place}: {key}", f"{name}: {what}", _hint_at_file(folder, name, commit))


def _hint_at_file(folder: Path, name: str, commit: str) -> str:
    scripts = [str(p.relative_to(folder)) for p in folder.glob("*.py")]
    near = difflib.get_close_matches(name, scripts, n=1)
    if commit and not near:
        return f"agents get what is committed: git add {name}, git commit"
    return f"did you mean {near[0]}?" if near else "name the script, from the folder you are in"


def _list_scripts(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (key, name) of the files that a command needs: what Python runs, and the program."""
    command, program = config.get("command") or DEFAULT_COMMAND, config.get("program")
    words = command if isinstance(command, list | tuple) else ()
    plain = [word for word in map(str, words) if not PLAIN_FLAG.fullmatch(word)]
    for before, word in zip(("", *plain), plain, strict=False):
        if word == "${program}":
            by_python = _is_python(before)
            if isinstance(program, str) and before != "-m" and (by_python or _is_file(program)):
                yield "program", program
        elif _is_python(before) and not word.startswith(("-", "$")):
            yield "command", word


def _is_python(word: str) -> bool:
    return word == "${interpreter}" or bool(PYTHON.fullmatch(word))


def _is_file(program: str) -> bool:
    return program.endswith(".py") or "/" in program or program in (".", "..")
