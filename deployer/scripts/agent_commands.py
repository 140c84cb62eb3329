"""The commands that `wandb agent` starts for configurations, word for word; pure.

After `create_sweep_command_args` and `create_sweep_command` in wandb/sdk/launch/sweeps/utils.py and
`_command_run` in wandb/wandb_agent.py. A test compares them with W&B's own, whose import takes a
second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deployer.sweeps.program import DEFAULT_COMMAND, ENVIRONMENT_MACRO


def render_command(
    config: Mapping[str, Any],
    arguments: Mapping[str, Any],
    environment: Mapping[str, str],
    json_file: str = "",
) -> list[str]:
    """Return the words of the command for one configuration."""
    words: list[str] = []
    macros = build_macros(arguments)
    macros |= {
        "interpreter": ["python"],
        "program": [str(config.get("program"))],
        "env": ["/usr/bin/env"],
        "args_json_file": [json_file],
    }
    for given in config.get("command") or DEFAULT_COMMAND:
        word = _fill_in(str(given), environment)
        if word.startswith("${") and word.endswith("}"):
            words += macros.get(word[2:-1]) or []
        else:
            words.append(word)
    return words


def build_macros(arguments: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the words that stand for each of W&B's macros of arguments."""
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
        "args_dict": [name for name, _ in pairs],  # the agent adds a dict to a list: its keys
        "args_append_hydra": [f"+{flag}" for flag in flags],
        "args_override_hydra": [f"++{flag}" for flag in flags],
    }


def render_commands(
    config: Mapping[str, Any],
    corners: Sequence[Mapping[str, Any]],
    environment: Mapping[str, str],
    json_files: Sequence[str],
) -> list[list[str]]:
    """Return the command of each configuration; each has a JSON file of its own."""
    return [
        render_command(config, corner, environment, file)
        for corner, file in zip(corners, json_files, strict=True)
    ]


def list_unset(config: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    """Return the environment variables that the command names and that are not set."""
    words = [str(word) for word in config.get("command") or ()]
    named = [name for word in words for name in ENVIRONMENT_MACRO.findall(word)]
    return [name for name in dict.fromkeys(named) if name not in environment]


def _fill_in(word: str, environment: Mapping[str, str]) -> str:
    """Fill in ${envvar:NAME}; a variable that is not set stands for its name."""
    return ENVIRONMENT_MACRO.sub(lambda m: environment.get(m[1], m[1]), word)
