"""Makes `schema.graphql` executable: resolvers of fields, and conversion of scalars.

A field without a resolver is an attribute of its row, or a key of a dictionary, by its name in
snake case. A list for a connection becomes one page of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from graphql import (
    DocumentNode,
    GraphQLError,
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLScalarType,
    GraphQLSchema,
    GraphQLUnionType,
    assert_valid_schema,
    build_ast_schema,
    get_named_type,
    is_introspection_type,
)

from deployer.backend.graphql.listing import DEFAULT_PAGE, Info, connection, encode_id
from deployer.backend.request import parse_json

CONNECTION = re.compile(r"^connection (\w+)$", re.MULTILINE)
CONNECTION_TYPES = (
    r"type \1Edge { node: \1 cursor: String }"
    r" type \1Connection { edges: [\1Edge!]! pageInfo: PageInfo! totalCount: Int }"
)
MUTATION = re.compile(r"^mutation (\w+)(?:\((.*?)\))?: \{(.*?)\}$", re.MULTILINE | re.DOTALL)
PAGE = ("after", "first")  # the arguments for the page of a list

Resolver = Callable[..., Any]
R = TypeVar("R", bound=Resolver)


class Resolvers:
    """Resolvers by field, such as `Run.user`.

    Functions of the table take the request's connection, the row, and the field's arguments except
    those for a page. Decorated functions take the row, the request's `info` and all arguments.
    """

    def __init__(self, table: Mapping[str, Resolver] | None = None) -> None:
        self.by_place = {place: _query(read) for place, read in (table or {}).items()}

    def field(self, place: str) -> Callable[[R], R]:
        def add(resolver: R) -> R:
            self.by_place[place] = resolver
            return resolver

        return add


def _query(read: Resolver) -> Resolver:
    def resolve(row: Any, info: Info, **arguments: Any) -> Any:
        if arguments:
            arguments = {name: arguments[name] for name in arguments if name not in PAGE}
        return read(info.context.db, row, **arguments)

    return resolve


def write_out(text: str) -> str:
    """Expand our two short forms in a schema to plain GraphQL."""
    changes = []

    def change(found: re.Match[str]) -> str:
        name, given, answer = found.groups("")
        kind = name[0].upper() + name[1:]
        changes.append(f"{name}(input: {kind}Input!): {kind}Payload")
        return (
            f"input {kind}Input {{ {given} clientMutationId: String }}"
            f" type {kind}Payload {{ {answer} clientMutationId: String }}"
        )

    text = MUTATION.sub(change, CONNECTION.sub(CONNECTION_TYPES, text))
    return f"{text} type Mutation {{ {' '.join(changes)} }}"


def make_executable(document: DocumentNode, parts: Sequence[Resolvers]) -> GraphQLSchema:
    """Build a schema with its resolvers; ignore resolvers of fields that it lacks."""
    schema = build_ast_schema(document)
    resolvers = {place: one for part in parts for place, one in part.by_place.items()}
    for kind in schema.type_map.values():
        if isinstance(kind, GraphQLObjectType) and not is_introspection_type(kind):
            _bind(kind, resolvers)
        elif isinstance(kind, GraphQLInputObjectType):
            for name, given in kind.fields.items():
                given.out_name = snake_case(name)
        elif isinstance(kind, GraphQLInterfaceType | GraphQLUnionType):
            kind.resolve_type = _by_class(schema.get_possible_types(kind))
        elif isinstance(kind, GraphQLScalarType):
            kind.coerce_output_value = WRITERS.get(kind.name, kind.coerce_output_value)
            kind.coerce_input_value = READERS.get(kind.name, kind.coerce_input_value)
    assert_valid_schema(schema)
    return schema


def _bind(kind: GraphQLObjectType, resolvers: Mapping[str, Resolver]) -> None:
    for name, field in kind.fields.items():
        for argument, given in field.args.items():
            given.out_name = snake_case(argument)
        default = _read_id if name == "id" else _read(snake_case(name))
        resolve = resolvers.get(f"{kind.name}.{name}", default)
        is_page = get_named_type(field.type).name.endswith("Connection")
        field.resolve = _paging(resolve, field) if is_page else resolve


def _paging(resolve: Resolver, field: GraphQLField) -> Resolver:
    default = DEFAULT_PAGE if "first" in field.args else None

    def resolve_page(row: Any, info: Info, **arguments: Any) -> Any:
        found = resolve(row, info, **arguments)
        if not isinstance(found, list):
            return found
        return connection(found, arguments.get("after"), arguments.get("first"), default)

    return resolve_page


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _read(name: str) -> Resolver:
    def resolve(row: Any, info: Info, **arguments: Any) -> Any:
        value = row.get(name) if isinstance(row, dict) else getattr(row, name, None)
        return value(info, **arguments) if callable(value) else value

    return resolve


def _read_id(row: Any, info: Info) -> Any:
    """Return an id for clients; encode a row number as an opaque id."""
    value = row.get("id") if isinstance(row, dict) else row.id
    return encode_id(info.parent_type.name, value) if isinstance(value, int) else value


def _by_class(kinds: Iterable[GraphQLNamedType]) -> Callable[..., str]:
    """Return a function that returns a row's type name by its class, by default the first."""
    names = [kind.name for kind in kinds]

    def resolve_type(row: Any, *_: Any) -> str:
        name = type(row).__name__.removesuffix("Row")
        return name if name in names else names[0]

    return resolve_type


def _write_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _write_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _read_json(value: Any) -> str:
    """Return JSON as text; refuse invalid JSON with 400, but accept an empty text."""
    text = _write_json(value)
    parse_json(text or "{}", "a JSON text of the request")
    return text


def _read_int64(value: Any) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise GraphQLError("Int64 cannot represent a value that is not a 64-bit integer")
    return value


WRITERS: Mapping[str, Callable[[Any], Any]] = {"JSONString": _write_json, "DateTime": _write_time}
READERS: Mapping[str, Callable[[Any], Any]] = {"JSONString": _read_json, "Int64": _read_int64}
