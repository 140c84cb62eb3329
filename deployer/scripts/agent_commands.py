"""The commands that `wandb agent` starts for configurations, word for word; pure.

After `create_sweep_command_args` and `create_sweep_command` in wandb/sdk/launch/sweeps/utils.py and
`_command_run` in wandb/wandb_agent.py. A test compares them with W&B's own, whose import takes a
second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deployer.scripts.rehearsal.process import JSON_FILE, Commands
from deployer.sweeps.program import DEFAULT_COMMAND, ENVIRONMENT_MACRO, PARAMETER_MACROS


def render_command(
    config: Mapping[str, Any],
    arguments: Mapping[str, Any],
    environment: Mapping[str, str],
    json_file: str = JSON_FILE,
) -> list[str]:
    """Return the words of the command for one configuration."""
    template = config.get("command") or DEFAULT_COMMAND
    return _render(template, config, arguments, environment, json_file)


def render_commands(
    config: Mapping[str, Any],
    corners: Sequence[Mapping[str, Any]],
    environment: Mapping[str, str],
) -> Commands:
    """Return the commands of configurations; the name of a JSON file stays open."""
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


def list_unset(config: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    """Return the environment variables that the command names and that are not set."""
    words = [str(word) for word in config.get("command") or ()]
    named = [name for word in words for name in ENVIRONMENT_MACRO.findall(word)]
    return [name for name in dict.fromkeys(named) if name not in environment]


def _fill_in(word: str, environment: Mapping[str, str]) -> str:
    """Fill in ${envvar:NAME}; a variable that is not set stands for its name."""
    return ENVIRONMENT_MACRO.sub(lambda m: environment.get(m[1], m[1]), word)
