"""The JSON schema of deployer.yaml, by which editors complete, explain and check it."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from deployer.config.deployer_yaml import CHOICES, KEYS, NAME_LISTS, WORDS
from deployer.config.sections.registry import SECTIONS

PATH = Path(__file__).with_name("deployer.schema.json")
TYPES = {str: "string", int: "integer", bool: "boolean"}
DESCRIPTIONS = {
    "wandb": "`embedded`, or the address of a W&B server.",
    "entity": "Whose sweeps: a user or a team.",
    "project": "The project of the sweeps.",
    "replicas": "How many agents in all.",
    "on": "Where agents run.",
    "owner": "The owner of created objects, as `--owner`; default: the server's name for the user.",
    "profile": "The site whose rules hold: the name of one of ours, or a file.",
    "polls": "When an agent sees that its run has ended: `quick`, at once, or `stock`, within 5 s "
    "as `wandb agent`. Default: `quick` on the embedded backend, else `stock`.",
    "warm": "Fork each run from a process that has preloaded wandb, numpy, torch and torchvision, "
    "as far as the script imports them; a list names more packages to preload. Default: yes.",
    "isolate": "Give each run a working folder of its own, a copy of the project. Default: no, all "
    "runs share the project's folder.",
    "gke": "The GKE cluster: the file of its specification, or the name of one of ours.",
    "kubernetes": "The cluster, and what each agent gets there.",
    "backend": "The embedded backend where it runs in a cluster.",
    "data": "Data sets: a list; one mapping is a list of one. The first is `DEPLOYER_DATA_DIR`.",
    "code": "The code that agents run: left out, this folder as it is; `git`, its commit.",
    "outputs": "Where the files are kept that runs write to `DEPLOYER_OUTPUT_DIR`.",
    "metrics": "Metrics of a script that knows no W&B: where they are read.",
    "local": "What runs on this machine use.",
    "image": "An image that `up` builds and pushes; agents run in it.",
}


def build_schema(executors: Collection[str]) -> dict[str, Any]:
    """Return the schema, made from the classes that read the file; `on:` has `executors`."""
    sections = {name: section.adapter.json_schema() for name, section in SECTIONS.items()}
    definitions: dict[str, Any] = {}
    for section in sections.values():
        definitions |= section.pop("$defs", {})
    properties: dict[str, Any] = {}
    for key, kind in KEYS.items():
        shape = {"type": TYPES[kind]} if kind in TYPES else sections[key]
        if words := WORDS.get(key):
            shape = {"anyOf": [{"enum": list(words)}, shape]}
        if key in NAME_LISTS:
            shape = {"anyOf": [shape, {"type": "array", "items": {"type": "string"}}]}
        properties[key] = {**shape, "description": DESCRIPTIONS[key]}
    properties["replicas"]["minimum"] = 1
    properties["on"]["enum"] = list(executors)
    for key, choices in CHOICES.items():
        properties[key]["enum"] = list(choices)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "deployer.yaml",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "$defs": definitions,
    }


def format_schema(executors: Collection[str]) -> str:
    """Return the schema as text, as it is in deployer.schema.json."""
    return json.dumps(build_schema(executors), indent=2) + "\n"
