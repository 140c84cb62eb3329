"""What the schema has of a document, and which gaps are explained in left_out.yaml."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import yaml
from graphql import (
    DocumentNode,
    FragmentDefinitionNode,
    GraphQLError,
    GraphQLSchema,
    OperationDefinitionNode,
    parse,
    validate,
)

from deployer.backend.graphql.schema import build_schema
from tests.contract.documents import join_document, read_document

LEFT_OUT = Path(__file__).with_name("left_out.yaml")
# What graphql-core says, and the name of what is missing then.
MISSING = (
    (r"Cannot query field '(\w+)' on type '(\w+)'.*", r"\2.\1"),
    (r"Unknown type '(\w+)'.*", r"\1"),
    (r"Unknown argument '(\w+)' on field '(\w+\.\w+)'.*", r"\2(\1)"),
    (r"Field '(\w+)' is not defined by type '(\w+)'.*", r"\2.\1"),
)
LONGEST_HEAD, LONGEST_DOCUMENT = 200, 20_000  # bytes
# Names that the SDK replaces before it asks, and fragments that it puts together itself.
FILLED_IN_LATER = r"\w+\._\w+_|Unknown fragment .*|Fragment .* is never used\."


@dataclass(frozen=True)
class LeftOut:
    """A reason why something is not served, and the patterns of operations it stands for."""

    why: str
    operations: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


@cache
def served_schema() -> GraphQLSchema:
    """Return the schema without our own fields."""
    return build_schema(plain=True)


def find_missing(document: DocumentNode) -> set[str]:
    """Return what a document asks that the schema lacks, as `Type.field` or `Type.field(argument)`.

    Whatever else is wrong with it is told in graphql-core's words.
    """
    missing = set()
    for error in validate(served_schema(), document):
        name = error.message
        for pattern, place in MISSING:
            name = re.sub(pattern, place, name, flags=re.DOTALL)
        missing.add(name)
    return {name for name in missing if not re.fullmatch(FILLED_IN_LATER, name)}


@cache
def read_left_out() -> tuple[LeftOut, ...]:
    """Read the explained list."""
    return tuple(
        LeftOut(row["why"], tuple(row.get("operations", ())), tuple(row.get("fields", ())))
        for row in yaml.safe_load(LEFT_OUT.read_text())
    )


def is_explained(operation: str) -> bool:
    """Tell whether the list says why an operation is not served."""
    patterns = [pattern for row in read_left_out() for pattern in row.operations]
    return any(fnmatchcase(operation, pattern) for pattern in patterns)


@cache
def find_unserved(package: Path) -> dict[str, set[str]]:
    """Return the operations in an SDK's source that are not served, and what they lack.

    Fields that are explained by themselves do not count. Documents that the SDK puts together at
    run time are not seen here: for them there is the session.
    """
    explained = {field for row in read_left_out() for field in row.fields}
    texts = [*find_documents(package), *find_core_documents(package / "bin" / "wandb-core")]
    fragments = {
        name: text for query in texts for name, text in read_document(query).fragments.items()
    }
    unserved: dict[str, set[str]] = {}
    for query in texts:
        found = read_document(query)
        if found.name:
            document = join_document(found.text, {**fragments, **found.fragments})
            if missing := find_missing(document) - explained:
                unserved.setdefault(found.name, set()).update(missing)
    return dict(sorted(unserved.items()))


def find_documents(package: Path) -> Iterator[str]:
    """Yield every GraphQL document that stands in a package's Python code as one text."""
    for path in sorted(package.rglob("*.py")):
        if "vendor" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and _is_document(text):
                yield text


def find_core_documents(binary: Path) -> Iterator[str]:
    """Yield every GraphQL document in wandb-core, a Go program, which holds them as plain text."""
    content = binary.read_bytes()
    for found in re.finditer(rb"\b(query|mutation) \w+ ?[({]", content):
        end = _end_of_block(content, found.start())
        while re.match(rb"\s*fragment \w+ on \w+ {", content[end : end + LONGEST_HEAD]):
            end = _end_of_block(content, end)
        text = content[found.start() : end].decode(errors="replace")
        if _is_document(text):
            yield text


def _end_of_block(content: bytes, start: int) -> int:
    """Return where a definition ends: at the brace that closes its first one."""
    depth = 0
    for brace in re.finditer(rb"[{}]", content[start : start + LONGEST_DOCUMENT]):
        depth += 1 if brace.group() == b"{" else -1
        if depth == 0:
            return start + brace.end()
    return start


def _is_document(text: str) -> bool:
    if not re.search(r"\b(query|mutation|fragment)\b[^{]*\{", text):
        return False
    try:
        definitions = parse(text).definitions
    except GraphQLError:
        return False
    kinds = OperationDefinitionNode | FragmentDefinitionNode
    return all(isinstance(definition, kinds) for definition in definitions)
