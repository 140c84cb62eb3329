"""Configurations in words and columns, for the terminal and the report; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deployer.config.redaction import redact
from deployer.sweeps.results import Row
from deployer.text import format_parameter

MOST_PARAMETERS = 20  # parameters; nobody reads a line, or looks through columns, of more


def describe_configuration(row: Row, among: Sequence[Row] = ()) -> str:
    """Return a run's parameters as `lr=0.1, batch_size=32`, without values of secrets.

    Parameters that are the same in all runs `among` which it is are left out; so are those after
    the first 20.
    """
    shown = redact(row.parameters)
    varying = list_varying([one.parameters for one in among]) if among else shown
    names = [name for name in shown if name in varying]
    more = max(0, len(names) - MOST_PARAMETERS)
    named = [f"{name}={word_value(shown[name])}" for name in names[:MOST_PARAMETERS]]
    return ", ".join(named + [f"and {more} more"] * bool(more)) or "no parameters"


def word_value(value: object) -> str:
    """Return a parameter's value as one writes it."""
    return json.dumps(value) if isinstance(value, list | dict) else format_parameter(value)


def list_varying(configurations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the parameters that are not the same in all configurations, all where none differs."""
    names = list(dict.fromkeys(name for one in configurations for name in one))
    varying = [n for n in names if len({repr(one.get(n)) for one in configurations}) > 1]
    return varying or names
