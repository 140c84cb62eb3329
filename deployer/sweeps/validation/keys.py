"""The table of a sweep file's keys outside of `parameters`, and its texts."""

from __future__ import annotations

import datetime
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deployer.sweeps.parameters.keys import nearest, shown
from deployer.sweeps.problem import Place, Problem, Problems, doubt
from deployer.sweeps.program import (
    DEFAULT_COMMAND,
    LAUNCH_RUNNERS,
    PARAMETER_MACROS,
    list_scripts,
)
from deployer.text import find_forbidden

# JSON's types: their words, and how to mend a value that is of another.
KINDS = {
    "string": ("text", "put it in quotes"),
    "integer": ("a whole number", "write digits without quotes, such as 3"),
    "number": ("a number", "write a number without quotes"),
    "boolean": ("true or false", "write true or false"),
    "object": ("a mapping", "write `key: value` pairs below it"),
    "array": ("a list", "write a list: [...]"),
}
# What other tools, and flags, call a key.
OTHER_NAMES = {"count": "run_cap", "max_runs": "run_cap", "script": "program"}
# Settings of deployer.yaml that are no keys of a sweep.
OF_DEPLOYER = frozenset(
    (
        *("backend", "code", "data", "gke", "isolate", "kubernetes", "local", "metrics", "on"),
        *("owner", "polls", "replicas", "wandb", "warm"),
    )
)
TEXTS = ("program", "entity", "project", "name", "description")
LONGEST_PROJECT = 128
LAUNCHED = ("kind", "apiVersion", "job", "image_uri")


@dataclass(frozen=True)
class Key:
    """Which values a key takes; `above` and `least` are limits of a number."""

    kind: str = "string"
    choices: tuple[Any, ...] = ()
    least: int | None = None
    above: int | None = None


METRIC: Mapping[str, Key] = {
    "name": Key(),
    "goal": Key(choices=("minimize", "maximize")),
    "target": Key("number"),
    "impute": Key(
        choices=("worst", "best", "latest"),
    ),
    "impute_while_running": Key(
        choices=("false", False, "worst", "best", "latest"),
    ),
}
HYPERBAND: Mapping[str, Key] = {
    "type": Key(choices=("hyperband",)),
    "min_iter": Key("integer", (), 1),
    "max_iter": Key("integer", (), 1),
    "s": Key("integer", (), 1),
    "eta": Key("number", above=1),
    "strict": Key("boolean"),
}
SCHEDULER: Mapping[str, Key] = {
    "engine": Key(choices=("wandb", "optuna", "ax")),
    "source": Key(),
    "optimizer": Key(),
    "search_space": Key(),
}
CONTROLLER: Mapping[str, Key] = {"type": Key(choices=("cloud", "local"))}
TOP: Mapping[str, Key] = {
    "method": Key(choices=("grid", "random", "bayes", "custom")),
    "parameters": Key("object"),
    "metric": Key("object"),
    "metrics": Key("array"),
    "run_cap": Key("integer", (), 1),
    "early_terminate": Key("object"),
    "command": Key("array"),
    "program": Key(),
    "name": Key(),
    "description": Key(),
    "entity": Key(),
    "project": Key(),
    "apiVersion": Key(),
    "kind": Key(choices=("sweep",)),
    "controller": Key("object"),
    "scheduler": Key("object"),
    "job": Key(),
    "image_uri": Key(),
}


def check_keys(path: Place, mapping: Mapping[Any, Any], known: Mapping[str, Key]) -> Problems:
    """Warn about the keys that W&B does not know, each with the nearest one."""
    for key in mapping:
        if key not in known:
            yield unknown((*path, str(key)), key, known)


def check_values(path: Place, mapping: Mapping[Any, Any], known: Mapping[str, Key]) -> Problems:
    """Warn about values that W&B's schema does not allow; it makes the sweep all the same."""
    for name, key in known.items():
        if name not in mapping or not (said := find_misfit(mapping[name], key)):
            continue
        hint = KINDS[key.kind][1]
        if key.choices:
            hint = nearest(mapping[name], dict.fromkeys(str(one).lower() for one in key.choices))
        elif _is_of(mapping[name], key.kind):
            hint = "write a larger number"
        yield doubt((*path, name), said, hint)


def find_misfit(value: Any, key: Key) -> str:
    """Return what is wrong with a key's value, empty if nothing is."""
    if key.choices:
        return "" if value in key.choices else f"{shown(value)} is not one of its values"
    if not _is_of(value, key.kind):
        return f"{shown(value)} is not {KINDS[key.kind][0]}"
    if key.least is not None and value < key.least:
        return f"{shown(value)} is below {key.least}"
    if key.above is not None and value <= key.above:
        return f"{shown(value)} is not above {key.above}"
    return ""


def unknown(path: Place, key: Any, known: Mapping[str, Key]) -> Problem:
    """Return the warning about a key that nobody reads."""
    hint = nearest(key, known)
    if key in OTHER_NAMES and OTHER_NAMES[key] in known:
        hint = f"did you mean {OTHER_NAMES[key]}?"
    if len(path) == 1 and key in OF_DEPLOYER:
        hint = "it belongs in deployer.yaml"
    return doubt(path, f"W&B does not know {shown(key)}", hint)


def find_misspelt(config: Mapping[str, Any], key: str, known: Mapping[str, Key]) -> str:
    """Return a hint if an unknown key was probably meant as the one that is missing."""
    others = [str(other) for other in config if other not in known]
    found = difflib.get_close_matches(key, others, n=1)
    return f"rename {found[0]} to {key}" if found else ""


def is_number(value: Any) -> bool:
    """Tell whether a value is a finite number, which a boolean is not."""
    return type(value) in (int, float) and math.isfinite(value)


def _is_of(value: Any, kind: str) -> bool:
    if kind == "integer":
        return is_number(value) and value == int(value)
    if kind == "number":
        return is_number(value)
    types: dict[str, type] = {"string": str, "boolean": bool, "object": dict, "array": list}
    return isinstance(value, types[kind])


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
