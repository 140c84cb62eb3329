"""The texts of a sweep, what JSON can say of it, and what starts it."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

from deployer.sweeps.parameters.keys import shown
from deployer.sweeps.problem import Place, Problem, Problems, doubt
from deployer.sweeps.program import (
    DEFAULT_COMMAND,
    LAUNCH_RUNNERS,
    PARAMETER_MACROS,
    list_scripts,
)
from deployer.sweeps.validation.keys import TOP, check_values, find_misspelt
from deployer.text import find_forbidden

TEXTS = ("program", "entity", "project", "name", "description")
LONGEST_PROJECT = 128
LAUNCHED = ("kind", "apiVersion", "job", "image_uri")


def check_sendable(path: Place, value: Any) -> Problems:
    """Complain about what JSON cannot say: dates, sets, binary data."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from check_sendable((*path, str(key)), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from check_sendable((*path, f"[{index}]"), item)
    elif isinstance(value, datetime.date):
        hint = f"put it in quotes: '{value}'"
        yield Problem(path, f"{value} is read as a date, which cannot be sent", hint)
    elif not isinstance(value, str | int | float | None):
        kind = type(value).__name__
        yield Problem(path, f"a {kind} cannot be sent", "use text, numbers, lists, mappings")


def check_finite(path: Place, value: Any) -> Problems:
    """Doubt the numbers that JSON does not have, in the values of parameters."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from check_finite((*path, str(key)), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from check_finite((*path, f"[{index}]"), item)
    elif isinstance(value, float) and not math.isfinite(value):
        message = f"{value} is not a number in JSON, so results may lose it"
        yield doubt(path, message, f"put it in quotes: '{value}'")


def check_tuples(path: Place, value: Any) -> Problems:
    """Doubt lists of texts that come from Python's tuples: YAML takes them apart at each comma."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from check_tuples((*path, str(key)), item)
    elif isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        opened = [one for one in value if one.startswith("(") and ")" not in one]
        if opened and any(one.endswith(")") and "(" not in one for one in value):
            message = f"YAML has no tuples, so these are {len(value)} texts, such as '{opened[0]}'"
            yield doubt(path, message, "write lists, such as [[1, 2], [3, 4]]")


def check_texts(config: Mapping[str, Any]) -> Problems:
    """Complain about names that are no text, or that no server takes."""
    for key in TEXTS:
        value = config.get(key, "")
        if isinstance(value, str):
            if key in ("entity", "project") and (letter := find_forbidden(value)):
                hint = f"write it without {letter}"
                yield Problem((key,), f"'{value}' contains {letter}, which names cannot have", hint)
            elif key == "project" and len(value) > LONGEST_PROJECT:
                message = f"the name has {len(value)} characters, more than {LONGEST_PROJECT}"
                yield Problem((key,), message, "write a shorter one")
            continue
        message = f"{shown(value)} is not text"
        hint = "give it a value, or remove it" if value is None else f"write {key}: '{value}'"
        shown_only = key in ("name", "description")
        yield (doubt if shown_only else Problem)((key,), message, hint)
    yield from check_values((), config, {key: TOP[key] for key in LAUNCHED})


def check_start(config: Mapping[str, Any]) -> Problems:
    """Complain where nothing says what to start, and about what Python cannot start."""
    command, program = config.get("command") or DEFAULT_COMMAND, config.get("program")
    words = [str(word) for word in command] if isinstance(command, list | tuple) else []
    if "${program}" in words and "program" not in config:
        launched = next((key for key in LAUNCH_RUNNERS if key in config), "")
        if launched:
            said = "is for W&B Launch, but an agent needs a program"
            yield Problem((launched,), said, "write program: train.py, the job's script, instead")
        elif not config.get("command"):
            hint = (
                find_misspelt(config, "program", TOP) or "add program: train.py, or command: [...]"
            )
            yield Problem(("program",), "missing, and so is command", hint)
    flags = next((word for word in words if word in PARAMETER_MACROS), "")
    if flags and (words[0] == flags or {*words} <= {"${env}", "${interpreter}", *PARAMETER_MACROS}):
        hint = f"write ['${{env}}', '${{interpreter}}', '${{program}}', '{flags}']"
        yield Problem(("command",), f"{flags} is in the place of a program", hint)
    module = f"command: ['${{env}}', '${{interpreter}}', '-m', {str(program).removeprefix('-m ')}"
    for key, name in list_scripts(config):
        if name.endswith(".ipynb"):
            hint = f"jupyter nbconvert --to script {name}, then name {name[:-6]}.py"
            yield Problem((key,), f"{name} is a notebook, which Python cannot run", hint)
        elif name.startswith("-m "):
            said = f"'{name}' is one word, not a file"
            yield Problem((key,), said, f"remove the key, and write {module}, '${{args}}']")
    if str(config.get("interpreter")).endswith(" -m"):
        said = "W&B does not know it, so an agent starts the program as a file"
        yield Problem(("interpreter",), said, f"remove both keys, and write {module}, '${{args}}']")
