"""The texts of a sweep, what JSON can say of it, and what starts it."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

from deployer.sweeps.parameters.keys import shown
from deployer.sweeps.problem import Place, Problem, Problems, doubt
from deployer.sweeps.program import RUNNERS
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
        message = f"{value} is no number in JSON, so results may lose it"
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
            yield doubt(path, message, "write lists: [[1, 2], [3, 4]]")


def check_texts(config: Mapping[str, Any]) -> Problems:
    """Complain about names that are no text, or that no server takes."""
    for key in TEXTS:
        value = config.get(key, "")
        if isinstance(value, str):
            if key in ("entity", "project") and (letter := find_forbidden(value)):
                hint = f"write it without {letter}"
                yield Problem((key,), f"'{value}' holds {letter}, which is in no name", hint)
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
    """Complain where nothing says what to start."""
    if not config.get("command") and not any(key in config for key in RUNNERS):
        hint = find_misspelt(config, "program", TOP) or "add program: train.py, or command: [...]"
        yield Problem(("program",), "missing, and there is no command", hint)
