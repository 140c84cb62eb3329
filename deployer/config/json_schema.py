"""The JSON schema of deployer.yaml, by which editors complete, explain and check it."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import DataclassSchema

from deployer.config.deployer_yaml import FILE_NAME
from deployer.config.settings import Settings

PATH = Path(__file__).with_name("deployer.schema.json")
NULL = {"type": "null"}


class _Described(GenerateJsonSchema):
    """Describes each key by the text below it, in the order of the class.

    Pydantic's own `use_attribute_docstrings` would read the sources whenever a command reads the
    file.
    """

    def dataclass_schema(self, schema: DataclassSchema) -> JsonSchemaValue:
        found = super().dataclass_schema(schema)
        described = _list_descriptions(schema["cls"])
        properties = {}
        for name, field in schema["cls"].__pydantic_fields__.items():
            key = field.alias or name
            properties[key] = {**found["properties"][key], "description": described[name]}
        return {**found, "properties": properties}


def build_schema(executors: Collection[str]) -> dict[str, Any]:
    """Return the schema, made from the classes that read the file; `on:` has `executors`."""
    schema = TypeAdapter(Settings).json_schema(schema_generator=_Described)
    for one in schema["properties"].values():
        # What deployer.yaml says nothing of is left out: an empty key is refused.
        choices = one.get("anyOf", ())
        if NULL in choices:
            choices.remove(NULL)
            del one["default"]
        if len(choices) == 1:
            one.update(one.pop("anyOf")[0])
    schema["properties"]["on"]["enum"] = list(executors)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": FILE_NAME}


def format_schema(executors: Collection[str]) -> str:
    """Return the schema as text, as it is in deployer.schema.json."""
    return json.dumps(build_schema(executors), indent=2) + "\n"


def _list_descriptions(kind: type) -> dict[str, str]:
    """Return the text below each field of a class."""
    [written] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(written, ast.ClassDef)
    found = {}
    for field, below in pairwise(written.body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found
