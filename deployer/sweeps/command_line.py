"""The command line that W&B's agent makes of a sweep's `command` and a run's arguments; pure.

Source: `wandb/wandb_agent.py` in the SDK; facts such as the order and `str()` of values are its.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from deployer.sweeps.configuration_list import JOB_ID, JOB_ID_MACRO, SPREAD, find_list_parameter

# The agent's own default less its `${env}`, which a person does not type.
DEFAULT_COMMAND = ("${interpreter}", "${program}", "${args}")
_ARGUMENTS = re.compile(r"\{args\w*\}")
ENVIRONMENT_WORD = re.compile(r"\$\{envvar:(\w+)\}")


def describe_run(settings: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """Return the command line of a run with this config, which may be one of an explicit list."""
    if listed := find_list_parameter(settings):
        words = [str(word) for word in settings.get("command") or ()]
        chosen = dict(config.get(listed) or {})
        if SPREAD in words:
            words = words[words.index(SPREAD) + 2 :]  # behind it and its JSON
            number = f"JOB_ID={chosen.pop(JOB_ID, '')}" if JOB_ID_MACRO in words else ""
            words = [_ARGUMENTS.sub(r"$\g<0>", word) for word in words]
            words = [number if word == JOB_ID_MACRO else word for word in words]
        return build_command_line({**settings, "command": words}, chosen)
    tops = settings.get("parameters") or {}
    return build_command_line(settings, {name: config[name] for name in tops if name in config})


def build_command_line(settings: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Return what to paste into a shell to repeat a run; every value is quoted as needed."""
    command = settings.get("command") or DEFAULT_COMMAND
    parts = [command] if isinstance(command, str) else [str(part) for part in command]
    words: list[str] = []
    for part in parts:
        named = ENVIRONMENT_WORD.fullmatch(part)
        if named:
            words.append(f'"${{{named[1]}}}"')
        else:
            words += [shlex.quote(word) for word in _expand(part, settings, arguments)]
    return " ".join(words)


def _expand(part: str, settings: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    pairs = [(name, str(value)) for name, value in arguments.items()]
    match part:
        case "${env}":
            return ["/usr/bin/env"]
        case "${interpreter}":
            return ["python"]
        case "${program}":
            return [str(settings.get("program", ""))]
        case "${args}":
            return [f"--{name}={value}" for name, value in pairs]
        case "${args_no_equals}":
            return [word for name, value in pairs for word in (f"--{name}", value)]
        case "${args_no_hyphens}":
            return [f"{name}={value}" for name, value in pairs]
        case "${args_append_hydra}":
            return [f"+{name}={value}" for name, value in pairs]
        case "${args_override_hydra}":
            return [f"++{name}={value}" for name, value in pairs]
        case "${args_no_boolean_flags}":
            return _boolean_flags(arguments)
        case "${args_json}":
            return [json.dumps(dict(arguments))]
    return [part]


def _boolean_flags(arguments: Mapping[str, Any]) -> list[str]:
    return [
        f"--{name}" if value is True else f"--{name}={value}"
        for name, value in arguments.items()
        if value is not False
    ]
