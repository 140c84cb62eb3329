"""Configurations: an explicit list as a W&B sweep, and those of runs; pure.

W&B has no such sweep, but a grid may have one parameter whose values are mappings. A small program
in `command:` spreads the mapping into the trainer's flags.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from deployer.sweeps.space import value_key

PARAMETER = "configuration"
# The key of a configuration's number in the list, which the run gets in its environment.
JOB_ID = "JOB_ID"
JOB_ID_MACRO = "{job_id}"
DEFAULT_COMMAND = ("${env}", "${interpreter}", "${program}", "${args}")

# Runs in the user's image: standard library only, Python 3.8 or newer. It writes the flags as the
# agent does (`create_sweep_command_args` of wandb/sdk/launch/sweeps/utils.py), adds the values to
# the file from which `wandb.init` reads the sweep's parameters, and execs the trainer. YAML 1.1
# reads `1e-05` as text, hence the `.0`.
SPREAD = """\
import json, os, sys
name = "configuration"
chosen = json.loads(sys.argv[1])[name]
numbered = "{job_id}" in sys.argv
flags = {key: value for key, value in chosen.items() if not numbered or key != "JOB_ID"}
pairs = list(flags.items())

def yaml(value):
    if isinstance(value, dict):
        return "{%s}" % ", ".join(yaml(str(k)) + ": " + yaml(v) for k, v in value.items())
    if isinstance(value, list):
        return "[%s]" % ", ".join(map(yaml, value))
    text = json.dumps(value, ensure_ascii=False)
    bare = isinstance(value, float) and "." not in text
    return text.replace("e", ".0e") if bare else text

path = os.environ.get("WANDB_SWEEP_PARAM_PATH", "")
if path:
    values = {key: {"value": value} for key, value in [(name, chosen)] + pairs}
    with open(path, "w", encoding="utf-8") as file:
        file.write(yaml(dict(values, wandb_version=1)))
    with open(path + ".json", "w", encoding="utf-8") as file:
        json.dump(flags, file)
forms = {
    "{job_id}": ["JOB_ID=%s" % chosen.get("JOB_ID", "")],
    "{args}": ["--%s=%s" % pair for pair in pairs],
    "{args_no_equals}": [word for key, value in pairs for word in ("--" + key, str(value))],
    "{args_no_hyphens}": ["%s=%s" % pair for pair in pairs],
    "{args_append_hydra}": ["+%s=%s" % pair for pair in pairs],
    "{args_override_hydra}": ["++%s=%s" % pair for pair in pairs],
    "{args_no_boolean_flags}": [
        "--" + key if value is True else "--%s=%s" % (key, value)
        for key, value in pairs if value is not False
    ],
    "{args_json}": [json.dumps(flags)],
    "{args_json_file}": [path + ".json"],
}
words = [part for word in sys.argv[2:] for part in forms.get(word, [word])]
os.execvp(words[0], words)
"""

_ARGUMENTS = re.compile(r"\$(\{args\w*\})")
_PYTHON = re.compile(r"(.*/)?python[0-9.]*")
# The keys that determine the configurations; all other keys of a sweep are kept.
SEARCH_KEYS = (
    *("method", "parameters", "command", "early_terminate", "run_cap"),
    *("controller", "scheduler", "seed", "retries", "name", "description"),
)

PLAIN = (float, int, str)
# The agent's default command without `${env}`, which people do not type.
TYPED_COMMAND = ("${interpreter}", "${program}", "${args}")
_SPREAD_ARGUMENTS = re.compile(r"\{args\w*\}")
ENVIRONMENT_WORD = re.compile(r"\$\{envvar:(\w+)\}")


def build_list_config(
    config: Mapping[str, Any],
    configurations: Sequence[Mapping[str, Any]],
    name: str,
    description: str,
) -> dict[str, Any]:
    """Return a sweep that runs exactly these configurations with the trainer of `config`.

    A configuration is {top name: value or nested mapping}, as the agent passes it to the trainer.
    If the sweep already is such a list, its command stays unchanged.
    """
    kept = {key: value for key, value in config.items() if key not in SEARCH_KEYS}
    command = list(config.get("command") or DEFAULT_COMMAND)
    values = [dict(c) for c in configurations]
    if parameter := find_list_parameter(config):
        values = [value[parameter] for value in values]
    else:
        command = list(build_command(command))
    return {
        "name": name,
        "description": description,
        **kept,
        "method": "grid",
        "command": command,
        "parameters": {parameter or PARAMETER: {"values": values}},
    }


def build_command(words: Sequence[object]) -> tuple[str, ...]:
    """Prefix a sweep's command with the spreading program, run by the same Python.

    The agent must not expand the trainer's `${args}`, so its dollar is removed.
    """
    texts = [str(word) for word in words]
    python = next((word for word in texts if _PYTHON.fullmatch(word)), "${interpreter}")
    rest = [_ARGUMENTS.sub(r"\1", word) for word in texts]
    return ("${env}", python, "-c", SPREAD, "${args_json}", *rest)


def find_list_parameter(config: Mapping[str, Any]) -> str:
    parameters = config.get("parameters")
    if not isinstance(parameters, Mapping) or len(parameters) != 1:
        return ""
    ((name, form),) = parameters.items()
    return str(name) if list_values(form) else ""


def list_configurations(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the configurations of an explicit list; empty for any other sweep."""
    name = find_list_parameter(config)
    return [dict(value) for value in list_values(config["parameters"][name])] if name else []


def list_values(form: Any) -> list[Mapping[str, Any]]:
    values = form.get("values") if isinstance(form, Mapping) else None
    good = isinstance(values, list) and all(isinstance(value, Mapping) for value in values)
    return list(values) if good and values else []


def list_parameters(sweep_config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a sweep's parameters, nested ones joined by dots (`optimizer.lr`)."""
    parameters = sweep_config.get("parameters")
    return tuple(_names(parameters, "")) if isinstance(parameters, Mapping) else ()


def flatten_configuration(run_config: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of the sweep's parameters in one run.

    Values that are mappings are flattened too, so an explicit list of configurations (one parameter
    whose values are mappings) looks like any other sweep.
    """
    flat: dict[str, Any] = {}
    for name in names:
        found, value = _look_up(run_config, name)
        if found and isinstance(value, PLAIN):  # the usual case, for thousands of runs
            flat[name] = value
        elif found:
            flat.update(_spread(name, value))
    return flat


def configuration_key(flat: Mapping[str, Any]) -> Hashable:
    """Return a key that is equal for equal configurations; `value_key` defines equal values."""
    return frozenset((name, value_key(value)) for name, value in flat.items())


def _names(parameters: Mapping[str, Any], prefix: str) -> list[str]:
    names: list[str] = []
    for key, form in parameters.items():
        inner = form.get("parameters") if isinstance(form, Mapping) else None
        if isinstance(inner, Mapping):
            names += _names(inner, f"{prefix}{key}.")
        else:
            names.append(f"{prefix}{key}")
    return names


def _look_up(config: Mapping[str, Any], name: str) -> tuple[bool, Any]:
    """Find a dotted name: first verbatim (names may contain dots), then level by level."""
    if name in config:
        return True, config[name]
    head, dot, rest = name.partition(".")
    inner = config.get(head)
    if dot and isinstance(inner, Mapping):
        return _look_up(inner, rest)
    return False, None


def _spread(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {name: value}
    flat: dict[str, Any] = {}
    # Sort by name: the SDK does not keep the order of a mapping's keys.
    for key, inner in sorted(value.items(), key=lambda item: str(item[0])):
        flat.update(_spread(f"{name}.{key}", inner))
    return flat


# The command line that W&B's agent builds from a sweep's `command` and a run's arguments; pure.
#
# Source: `wandb/wandb_agent.py` in the SDK, for example the order and `str()` of values.


def describe_run(settings: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    if listed := find_list_parameter(settings):
        words = [str(word) for word in settings.get("command") or ()]
        chosen = dict(config.get(listed) or {})
        if SPREAD in words:
            words = words[words.index(SPREAD) + 2 :]  # after the program and its JSON
            number = f"JOB_ID={chosen.pop(JOB_ID, '')}" if JOB_ID_MACRO in words else ""
            words = [_SPREAD_ARGUMENTS.sub(r"$\g<0>", word) for word in words]
            words = [number if word == JOB_ID_MACRO else word for word in words]
        return build_command_line({**settings, "command": words}, chosen)
    tops = settings.get("parameters") or {}
    return build_command_line(settings, {name: config[name] for name in tops if name in config})


def build_command_line(settings: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Return the shell command that repeats a run; values are quoted as needed."""
    command = settings.get("command") or TYPED_COMMAND
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
            return [
                f"--{name}" if value is True else f"--{name}={value}"
                for name, value in arguments.items()
                if value is not False
            ]
        case "${args_json}":
            return [json.dumps(dict(arguments))]
    return [part]
