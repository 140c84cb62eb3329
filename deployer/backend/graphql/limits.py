"""How much one GraphQL document may ask for: several times what W&B's clients do.

Fragments are counted wherever they are spread, so that a short document cannot become a long one.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphql import DocumentNode, GraphQLError
from graphql.language import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
)

MOST_LETTERS = 100_000  # comments and texts included, which are no tokens or a single one
MOST_TOKENS = 1000
MOST_FIELDS = 500
DEEPEST = 30  # fragments are levels, too
MOST_LISTS = 20  # each may read every run of a project
LISTS = ("edges", "deployerRuns")


@dataclass(frozen=True)
class Size:
    """What a selection asks for, all fragments spread out."""

    fields: int = 0
    depth: int = 0
    lists: int = 0

    def beside(self, other: Size) -> Size:
        """Return the size of both."""
        depth = max(self.depth, other.depth)
        return Size(self.fields + other.fields, depth, self.lists + other.lists)

    def below(self) -> Size:
        """Return the size one level further down."""
        return Size(self.fields, self.depth + 1, self.lists)


def find_excess(document: DocumentNode) -> GraphQLError | None:
    """Return what is too much in a document, if anything is."""
    size = _Measure(document).whole
    for count, most, what in (
        (size.depth, DEEPEST, "levels"),
        (size.fields, MOST_FIELDS, "fields"),
        (size.lists, MOST_LISTS, "lists"),
    ):
        if count > most:
            return GraphQLError(f"the query asks for more than {most} {what}")
    return None


class _Measure:
    def __init__(self, document: DocumentNode) -> None:
        parts = document.definitions
        self._fragments = {p.name.value: p for p in parts if isinstance(p, FragmentDefinitionNode)}
        self._known: dict[str, Size] = {}
        self.whole = Size()
        for part in parts:
            if isinstance(part, OperationDefinitionNode):
                self.whole = self.whole.beside(self._of(part.selection_set))

    def _of(self, selections: SelectionSetNode | None) -> Size:
        size = Size()
        for node in selections.selections if selections else ():
            if isinstance(node, FieldNode):
                inner = self._of(node.selection_set)
                is_list = int(node.name.value in LISTS)
                size = size.beside(inner.below()).beside(Size(1, 1, is_list))
            elif isinstance(node, InlineFragmentNode):
                size = size.beside(self._of(node.selection_set).below())
            elif isinstance(node, FragmentSpreadNode):
                size = size.beside(self._of_fragment(node.name.value).below())
        return size

    def _of_fragment(self, name: str) -> Size:
        """Measure a fragment once; one that spreads itself is refused by validation."""
        if name not in self._known:
            self._known[name] = Size()
            fragment = self._fragments.get(name)
            self._known[name] = self._of(fragment.selection_set if fragment else None)
        return self._known[name]
