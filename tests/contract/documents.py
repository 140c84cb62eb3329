"""GraphQL documents as they are kept: one layout for all, fragments by their names; pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    Node,
    OperationDefinitionNode,
    SelectionNode,
    parse,
    print_ast,
)
from graphql.language import InlineFragmentNode, Visitor, visit

WIDTH = 92  # with the indentation inside the YAML file at most 100 columns
SHORT = 60  # selections with fields of their own up to this length stand in a line with others


@dataclass(frozen=True)
class Document:
    """One operation, its name, and the texts of the fragments it brings along."""

    name: str
    text: str
    fragments: Mapping[str, str]


def read_document(query: str) -> Document:
    """Bring a document that an SDK sent into the kept layout."""
    fragments: dict[str, str] = {}
    name = text = ""
    for definition in parse(query).definitions:
        laid_out = "\n".join(_lay_out(definition, WIDTH))
        if isinstance(definition, FragmentDefinitionNode):
            fragments[definition.name.value] = laid_out
        elif isinstance(definition, OperationDefinitionNode):
            name = definition.name.value if definition.name else "(no name)"
            text = laid_out
    return Document(name, text, fragments)


def join_document(text: str, fragments: Mapping[str, str]) -> DocumentNode:
    """Return an operation with whatever fragments it needs, themselves in need of others too."""
    needed: dict[str, str] = {}
    waiting = _spreads(text)
    while waiting:
        name = waiting.pop()
        if name not in needed and name in fragments:
            needed[name] = fragments[name]
            waiting |= _spreads(fragments[name])
    return parse("\n".join([text, *(needed[name] for name in sorted(needed))]))


def _spreads(text: str) -> set[str]:
    found: set[str] = set()

    class Spreads(Visitor):
        def enter_fragment_spread(self, node: FragmentSpreadNode, *_: object) -> None:
            found.add(node.name.value)

    visit(parse(text), Spreads())
    return found


def _lay_out(node: Node, width: int) -> list[str]:
    """Return a node on one line if it fits, else its selections below its head.

    An only field stands with its parent where that fits: `project(…) { run(…) {`, in the end `} }`.
    """
    flat, selections = _flat(node), _selections(node)
    if len(flat) <= width or not selections:
        return _wrap(flat, width)
    head, depth = _head(node), 1
    while isinstance(node, FieldNode) and len(selections) == 1 and _selections(selections[0]):
        longer = f"{head} {{ {_head(selections[0])}"
        if len(longer) > width - 2:
            break
        head, depth, selections = longer, depth + 1, _selections(selections[0])
    lines = [f"  {line}" for part in _parts(selections, width - 2) for line in part]
    return [*_wrap(f"{head} {{", width), *lines, " ".join("}" * depth)]


def _parts(selections: tuple[SelectionNode, ...], width: int) -> Iterator[list[str]]:
    """Yield the lines of selections: short ones share a paragraph, the others have their own."""
    short: list[str] = []
    for selection in selections:
        flat = _flat(selection)
        if len(flat) <= SHORT or not _selections(selection):
            short.append(flat)
            continue
        yield _wrap(" ".join(short), width)
        short = []
        yield _lay_out(selection, width)
    yield _wrap(" ".join(short), width)


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent="    ", break_on_hyphens=False)


def _selections(node: Node) -> tuple[SelectionNode, ...]:
    found = getattr(node, "selection_set", None)
    return tuple(found.selections) if found else ()


def _flat(node: Node) -> str:
    text = " ".join(print_ast(node).split())
    return text.replace("( ", "(").replace(" )", ")")


def _head(node: Node) -> str:
    """Return what stands before a node's selections."""
    if isinstance(node, FieldNode):
        bare = FieldNode(
            alias=node.alias, name=node.name, arguments=node.arguments, directives=node.directives
        )
        return _flat(bare)
    if isinstance(node, InlineFragmentNode):
        return f"... on {node.type_condition.name.value}" if node.type_condition else "..."
    return " ".join(print_ast(node).split(" {\n", 1)[0].split())
