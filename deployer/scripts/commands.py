"""The commands that `wandb agent` starts, and a few configurations that cover them; pure.

After `create_sweep_command_args` and `create_sweep_command` in wandb/sdk/launch/sweeps/utils.py and
`_command_run` in wandb/wandb_agent.py. A test compares them with W&B's own, whose import takes a
second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deployer.scripts.rehearsal.process import JSON_FILE, Commands
from deployer.sweeps.parameters import parse_parameters
from deployer.sweeps.program import DEFAULT_COMMAND, ENVIRONMENT_MACRO, PARAMETER_MACROS
from deployer.sweeps.space import (
    Categorical,
    Constant,
    Continuous,
    Integer,
    Parameter,
    distinct,
)

MOST_VALUES = 10_000  # of one parameter
MOST_CELLS = 1_000_000  # parameters times configurations
# Neither end of the range, and not a round number.
INSIDE = 0.3819
# Quantiles for distributions without bounds.
OPEN_ENDS = (0.001, 0.999)


def render_command(
    config: Mapping[str, Any],
    arguments: Mapping[str, Any],
    environment: Mapping[str, str],
    json_file: str = JSON_FILE,
) -> list[str]:
    template = config.get("command") or DEFAULT_COMMAND
    return _render(template, config, arguments, environment, json_file)


def render_commands(
    config: Mapping[str, Any],
    corners: Sequence[Mapping[str, Any]],
    environment: Mapping[str, str],
) -> Commands:
    """Return the commands of configurations; the name of a JSON file stays a placeholder."""
    words = [str(word) for word in config.get("command") or DEFAULT_COMMAND]
    at = [index for index, word in enumerate(words) if word in PARAMETER_MACROS]
    first, end = (at[0], at[-1] + 1) if at else (len(words), len(words))

    def render(part: Sequence[str], corner: Mapping[str, Any]) -> list[str]:
        return _render(part, config, corner, environment, JSON_FILE)

    blocks = [render(words[first:end], corner) for corner in corners[: None if at else 1]]
    return Commands(render(words[:first], {}), blocks, render(words[end:], {}), corners)


def _render(
    template: Sequence[Any],
    config: Mapping[str, Any],
    arguments: Mapping[str, Any],
    environment: Mapping[str, str],
    json_file: str,
) -> list[str]:
    words: list[str] = []
    macros = build_macros(arguments)
    macros |= {
        "interpreter": ["python"],
        "program": [str(config.get("program"))],
        "env": ["/usr/bin/env"],
        "args_json_file": [json_file],
    }
    for given in template:
        word = _fill_in(str(given), environment)
        if word.startswith("${") and word.endswith("}"):
            words += macros.get(word[2:-1]) or []
        else:
            words.append(word)
    return words


def build_macros(arguments: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the words that replace each of W&B's macros of arguments."""
    pairs = list(arguments.items())
    flags = [f"{name}={value}" for name, value in pairs]
    return {
        "args": [f"--{flag}" for flag in flags],
        "args_no_equals": [word for name, value in pairs for word in (f"--{name}", str(value))],
        "args_no_hyphens": flags,
        "args_no_boolean_flags": [
            f"--{name}" if value is True else f"--{name}={value}"
            for name, value in pairs
            if value is not False
        ],
        "args_json": [json.dumps(dict(arguments))],
        "args_dict": [name for name, _ in pairs],  # extending a list by a dict appends its keys
        "args_append_hydra": [f"+{flag}" for flag in flags],
        "args_override_hydra": [f"++{flag}" for flag in flags],
    }


def list_unset(config: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    words = [str(word) for word in config.get("command") or ()]
    named = [name for word in words for name in ENVIRONMENT_MACRO.findall(word)]
    return [name for name in dict.fromkeys(named) if name not in environment]


def _fill_in(word: str, environment: Mapping[str, str]) -> str:
    """Replace ${envvar:NAME}; an unset variable becomes its name."""
    return ENVIRONMENT_MACRO.sub(lambda m: environment.get(m[1], m[1]), word)


def list_corners(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return configurations that cover each value of a list and both ends of each range.

    The first is the first of a grid.
    """
    space, _ = parse_parameters(config.get("parameters", {}))
    values = [list_values(parameter) for parameter in space.parameters]
    if not values:
        return [{}]
    longest = min(max(map(len, values)), 1 + MOST_CELLS // len(values))
    rows = [[v[min(i, len(v) - 1)] for v in values] for i in range(longest)]
    return distinct([space.nest(row) for row in rows])


def list_values(parameter: Parameter) -> list[Any]:
    """Return a parameter's values, or both ends of its range, then a value inside."""
    match parameter:
        case Constant(value=value):
            return [value]
        case Categorical(values=values):
            return distinct(values)[:MOST_VALUES]
        case Integer(min=low, max=high):
            return [low, high]
        case Continuous():
            ends = (0.0, 1.0) if "uniform" in parameter.distribution else OPEN_ENDS
            drawn = [parameter.value_at(u) for u in (*ends, INSIDE)]
            return drawn if parameter.q else [float(value) for value in drawn]


def list_drawn(config: Mapping[str, Any]) -> list[str]:
    """Return the parameters whose value is any number of a range."""
    given = (config.get("parameters") or {}).items()
    return [n for n, raw in given if isinstance(raw, Mapping) and "min" in raw and "q" not in raw]
