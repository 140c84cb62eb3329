"""A sweep's command as `wandb agent` would start it, with its errors and warnings.

Macros are those of `create_sweep_command_args` in wandb/sdk/launch/sweeps/utils.py and of
`_command_run` in wandb/wandb_agent.py. An agent silently drops an unknown macro.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deployer.errors import ConfigError, KeyPath
from deployer.sweeps.keys import Findings, doubt, problem, shown

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
FLAG_MACROS = tuple(macro for macro in PARAMETER_MACROS if "json_file" not in macro)
# Macros that write each parameter as a separate flag.
ONE_BY_ONE = tuple(m for m in PARAMETER_MACROS if "json" not in m and m != "${args_dict}")
MACROS = (*DEFAULT_COMMAND[:3], *PARAMETER_MACROS)
ENVIRONMENT_MACRO = re.compile(r"\$\{envvar:([A-Z0-9_]*)\}")
INSIDE = re.compile(r"\$\{(\w+)\}")
LAUNCH_RUNNERS = ("job", "image_uri")
# Flags of Python without a value, so the script follows.
PLAIN_FLAG = re.compile(r"-[bBdEiIOPqsSuvx]+")
PYTHON = re.compile(r"(.*/)?python[0-9.]*")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
NO_PROGRAM = "'%s' sets a variable, as a shell or env does, and is not a program"


def check_command(config: Mapping[str, Any]) -> Findings:
    """Report a `command` that is not a list of words, and wrong macros; pure."""
    command = config.get("command")
    runs = any(key in config for key in ("program", *LAUNCH_RUNNERS))
    if not command and (command == [] or "command" not in config):
        return
    if command is None:
        yield doubt(("command",), "is empty, so agents use the default command", "remove the key")
        return
    if not isinstance(command, list):
        hint = "write a list: [python, train.py, '${args}']"
        yield problem(("command",), f"{shown(command)} is not a list", hint)
        return
    for index, word in enumerate(command):
        path = ("command", f"[{index}]")
        if isinstance(word, bool) or not isinstance(word, str | int | float):
            yield problem(path, f"{shown(word)} is not text", "put the word in quotes")
        else:
            yield from _check_macro(path, str(word), config)
            yield from _check_inside(path, str(word), config)
            if str(word).startswith("--") and " --" in str(word):
                hint = "write each flag as a separate word: --a=1, --b=2"
                yield doubt(
                    path, "several flags in one word: the script gets them as one argument", hint
                )
    first = str(command[0]).strip()
    if ASSIGNMENT.match(first):
        words = ", ".join(["'${env}'", *map(repr, first.split())])
        hint = f"write '${{env}}' before it: [{words}, …]"
        yield problem(("command", "[0]"), NO_PROGRAM % first, hint)
    elif " " in first and not first.startswith("$"):
        message = f"'{first}' is one word, so it would be the name of a program"
        hint = f"write [{', '.join(first.split())}, …], each word by itself"
        yield doubt(("command", "[0]"), message, hint)
    if "${program}" in command and not runs:
        hint = "add program: train.py, or write the script's name in command"
        yield problem(("program",), "missing, but command uses ${program}", hint)
    if _varies(config) and not any(macro in command for macro in PARAMETER_MACROS):
        message = "no ${args}: a script that does not read wandb.config runs the same every time"
        yield doubt(("command",), message, "add '${args}' as a separate word")
    yield from _check_overrides([*map(str, command)], config)
    if sum(macro in command for macro in FLAG_MACROS) > 1:
        message = "the flags are passed more than once"
        yield doubt(("command",), message, "keep one of the macros")


def _check_overrides(words: Sequence[str], config: Mapping[str, Any]) -> Findings:
    """Report flags after those of the parameters: for a repeated flag, the last one wins."""
    parameters = config.get("parameters")
    begin = next((words.index(macro) for macro in ONE_BY_ONE if macro in words), len(words))
    if not isinstance(parameters, Mapping):
        return
    names = {str(name).replace("-", "_"): str(name) for name in parameters}
    for index in range(begin + 1, len(words)):
        flag, equals, value = words[index].partition("=")
        name = names.get(flag.lstrip("-+").replace("-", "_"))
        if name is None or not (equals or flag.startswith("-")):
            continue
        given = parameters[name]
        constant = isinstance(given, Mapping) and set(given) == {"value"}
        if constant and equals and value == str(given["value"]):
            continue
        said = f"'{words[index]}' comes after the flags of the parameters, so it overrides {name}"
        hint = f"remove it, or {name} from parameters"
        complain = doubt if constant else problem
        yield complain(("command", f"[{index}]"), said, hint)


def _varies(config: Mapping[str, Any]) -> bool:
    """Return True unless every parameter is one constant."""
    parameters = config.get("parameters")
    if not isinstance(parameters, Mapping):
        return bool(parameters)
    return any(not isinstance(one, Mapping) or set(one) != {"value"} for one in parameters.values())


def _check_inside(path: KeyPath, word: str, config: Mapping[str, Any]) -> Findings:
    """Warn about macros inside a word: an agent replaces only whole words."""
    parameters = config.get("parameters")
    names = parameters if isinstance(parameters, Mapping) else ()
    if "${envvar:" in word and not word.startswith("${") and not ENVIRONMENT_MACRO.search(word):
        message = "environment variables are in capitals, so this is not replaced"
        yield doubt(path, message, "write a name such as ${envvar:HOME}")
    for found in INSIDE.finditer(word):
        macro, name = found.group(0), found.group(1)
        if macro == word or (macro in PARAMETER_MACROS and " " in word):
            continue  # a whole word, or a line for a shell, which the check for "no ${args}" covers
        if macro in MACROS:
            message = f"{macro} is inside a word, so it is not replaced"
            yield doubt(path, message, f"make '{macro}' a separate word")
        elif name in names:
            message = f"{macro} is not a macro: an agent passes all parameters at once"
            yield doubt(path, message, "write '${args}' as a separate word")


def _check_macro(path: KeyPath, word: str, config: Mapping[str, Any]) -> Findings:
    if not (word.startswith("${") and word.endswith("}")) or word in MACROS:
        return
    if ENVIRONMENT_MACRO.search(word):
        return
    parameters = config.get("parameters")
    if isinstance(parameters, Mapping) and word[2:-1] in parameters:
        said = f"{word} is a parameter, not a macro, so the agent would drop it"
        yield problem(path, said, "write '${args}', the flags of all parameters")
        return
    near = difflib.get_close_matches(word, MACROS, n=1)
    known = f"one of: {', '.join(MACROS)}, ${{envvar:NAME}}"
    said = f"{word} is not a macro, so the agent would drop it"
    yield problem(path, said, f"did you mean {near[0]}?" if near else known)


def check_program(
    config: Mapping[str, Any], folder: Path, place: str, commit: str = "", archived: bool = False
) -> None:
    """Raise ConfigError if the project folder lacks the file that the command starts.

    `place` names the sweep's file, or the sweep; `commit` is that of a folder from git. Undecidable
    cases, such as a module or a program on the PATH, are not reported.
    """
    for one in find_missing_scripts(config, folder, commit, archived):
        raise ConfigError(f"{place}: {one.path[0]}", one.message, one.fix)


def find_missing_scripts(
    config: Mapping[str, Any], folder: Path, commit: str = "", archived: bool = False
) -> Findings:
    """Yield a problem for each file that the command starts and the folder lacks.

    If agents get the folder as an archive, files above it count as missing too.
    """
    for key, name in list_scripts(config):
        path = folder / name
        outside = os.path.relpath(path, folder).startswith("..") and not os.path.isabs(name)
        if archived and outside and path.exists():
            above = os.path.commonpath([folder, os.path.abspath(path)])
            inside = os.path.relpath(path, above)
            hint = f"cd {above}, write {inside}, and name the sweep file from there"
            if commit:
                hint = f"let code: {{folder: …}} in deployer.yaml name a folder that has {inside}"
            yield problem(
                (key,), f"{name} is outside {folder}, and pods get only that folder", hint
            )
            continue
        if _can_run(path):
            continue
        where = f"at commit {commit}" if commit else f"in {folder}"
        folder_said = "is a folder without __main__.py"
        what = folder_said if path.is_dir() else f"file not found {where}"
        yield problem((key,), f"{name}: {what}", _hint_at_file(folder, name, commit))


def _can_run(path: Path) -> bool:
    return path.is_file() or (path / "__main__.py").is_file()


def _hint_at_file(folder: Path, name: str, commit: str) -> str:
    above = next((one for one in folder.absolute().parents if _can_run(one / name)), None)
    if above and not commit:
        return f"cd {os.path.relpath(above, folder)}, and name the sweep file from there"
    scripts = [str(p.relative_to(folder)) for p in folder.glob("*.py")]
    near = difflib.get_close_matches(name, scripts, n=1)
    if " " in name:
        start = "'${env}', '${interpreter}', " if name.split()[0].endswith(".py") else ""
        return f"write command: [{start}{', '.join(name.split())}, '${{args}}'], without program"
    if commit and not near:
        return f"agents get only committed files: git add {name}, git commit"
    return (
        f"did you mean {near[0]}?"
        if near
        else "cd to the folder of the script, and name the sweep file from there"
    )


def list_scripts(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (key, name) of the files that a command needs: Python's script, and the program."""
    command, program = config.get("command") or DEFAULT_COMMAND, config.get("program")
    words = command if isinstance(command, list | tuple) else ()
    plain = [word for word in map(str, words) if not PLAIN_FLAG.fullmatch(word)]
    for before, word in zip(("", *plain), plain, strict=False):
        if word == "${program}":
            by_python = _is_python(before)
            if isinstance(program, str) and before != "-m" and (by_python or _is_file(program)):
                yield "program", program
        elif _is_python(before) and not word.startswith("-") and "$" not in word:
            yield "command", word


def _is_python(word: str) -> bool:
    return word == "${interpreter}" or bool(PYTHON.fullmatch(word))


def _is_file(program: str) -> bool:
    return program.endswith(".py") or "/" in program or program in (".", "..")
