"""The JSON schema of sweep files, by which editors complete, explain and check them.

Made from the tables of keys. It refuses what cannot run as far as a schema can say so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deployer.sweeps.parameters.keys import KEYS, MEANINGS, NESTED, shape_keys
from deployer.sweeps.program import MACROS
from deployer.sweeps.validation.keys import CONTROLLER, HYPERBAND, METRIC, SCHEDULER, TOP, Key
from deployer.text import FORBIDDEN_IN_NAMES

PATH = Path(__file__).parents[1] / "sweep.schema.json"
Schema = dict[str, Any]
GROUP = {"$ref": "#/definitions/parameters"}
# What the keys of a parameter say where no distribution is named, the first that is there counts.
IMPLIED = (
    ((NESTED,), (NESTED,)),
    (("values",), ("values", "probabilities")),
    (("value",), ("value",)),
    (("min", "max"), ("min", "max")),
)


def build_schema() -> Schema:
    """Return the schema, in the draft that editors know best."""
    properties = {name: _describe(key) for name, key in TOP.items()}
    properties["parameters"] = {**GROUP, "description": TOP["parameters"].meaning}
    properties["metric"] |= _mapping(METRIC, "name")
    properties["metrics"] |= {"items": _mapping(METRIC, "name"), "minItems": 2}
    properties["early_terminate"] |= _mapping(HYPERBAND, "type")
    properties["scheduler"] |= _mapping(SCHEDULER, "engine")
    properties["controller"] |= _mapping(CONTROLLER, "type")
    properties["command"]["items"] = {
        "anyOf": [{"enum": list(MACROS)}, {"type": ["string", "number"]}]
    }
    for name in ("entity", "project"):
        properties[name]["pattern"] = f"^[^{re.escape(FORBIDDEN_IN_NAMES)}]*$"
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "W&B sweep",
        "type": "object",
        "additionalProperties": False,
        "required": ["method"],
        "properties": properties,
        "anyOf": [{"required": [key]} for key in ("command", "program")],
        "allOf": [
            _when_method(("random", "bayes"), {"required": ["run_cap"]}),
            _when_method(("bayes",), {"required": ["metric"]}),
            {"if": {"not": {"required": ["scheduler"]}}, "then": {"required": ["parameters"]}},
        ],
        "definitions": {"parameters": _build_group(), "parameter": _build_parameter()},
    }


def format_schema() -> str:
    """Return the schema as text, as it is in sweep.schema.json."""
    return json.dumps(build_schema(), indent=2) + "\n"


def _describe(key: Key) -> Schema:
    shape: Schema = {"description": key.meaning}
    shape |= {"enum": list(key.choices)} if key.choices else {"type": key.kind}
    if key.least is not None:
        shape["minimum"] = key.least
    if key.above is not None:
        shape["exclusiveMinimum"] = key.above
    return shape


def _mapping(keys: Mapping[str, Key], needed: str) -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [needed],
        "properties": {name: _describe(key) for name, key in keys.items()},
    }


def _when_method(methods: tuple[str, ...], then: Schema) -> Schema:
    named = {"required": ["method"], "properties": {"method": {"enum": list(methods)}}}
    return {"if": named, "then": then}


def _build_group() -> Schema:
    return {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"$ref": "#/definitions/parameter"},
    }


def _build_parameter() -> Schema:
    """Return the schema of one parameter: all keys, and those of each distribution."""
    properties: Schema = {
        name: {"description": meaning, "type": "number"} for name, meaning in MEANINGS.items()
    }
    properties["value"].pop("type")
    properties["values"] |= {"type": "array", "minItems": 1}
    properties["probabilities"] |= {"type": "array", "items": {"type": "number", "minimum": 0}}
    properties["q"]["exclusiveMinimum"] = 0
    properties["sigma"]["minimum"] = 0
    properties |= {name: {**properties[name], "exclusiveMinimum": 0} for name in ("a", "b")}
    properties["distribution"] |= {"type": "string", "enum": list(KEYS)}
    properties[NESTED] = {**GROUP, "description": MEANINGS[NESTED]}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "if": {"required": ["distribution"]},
        "then": {"allOf": [_when_named(name) for name in KEYS]},
        "else": _build_implied(0),
    }


def _when_named(distribution: str) -> Schema:
    needed, more = KEYS[distribution]
    limits: Schema = {}
    if distribution.endswith("_values"):
        limits = {"min": {"exclusiveMinimum": 0}}
    elif distribution == "int_uniform":
        limits = {key: {"type": "integer"} for key in shape_keys(distribution)}
    return {
        "if": {"properties": {"distribution": {"const": distribution}}},
        "then": {
            "required": list(needed),
            "propertyNames": {"enum": ["distribution", *needed, *more]},
            **({"properties": limits} if limits else {}),
        },
    }


def _build_implied(index: int) -> Schema:
    """Return what holds without a named distribution, from one of the forms on."""
    needed, allowed = IMPLIED[index]
    then: Schema = {"required": list(needed), "propertyNames": {"enum": list(allowed)}}
    if index == len(IMPLIED) - 1:
        return then
    return {"if": {"required": [needed[0]]}, "then": then, "else": _build_implied(index + 1)}
