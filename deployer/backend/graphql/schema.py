"""Executes GraphQL requests: size limits of documents, and refusals of features only W&B has.

The schema serves all requests of a supported SDK for runs, sweeps, projects, files and artifacts.
`tests/contract/left_out.yaml` lists the other requests of SDKs, and what happens without them.
"""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Iterable, Mapping
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from graphql import (
    DocumentNode,
    GraphQLError,
    GraphQLSchema,
    OperationType,
    Visitor,
    execute_sync,
    parse,
    validate,
    visit,
)
from graphql.language import (
    FieldDefinitionNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    InlineFragmentNode,
    NamedTypeNode,
    OperationDefinitionNode,
    SelectionSetNode,
)
from graphql.language.visitor import REMOVE

from deployer.backend.graphql.engine import make_executable, write_out
from deployer.backend.graphql.resolvers import (
    artifact_changes,
    artifacts,
    extension,
    files,
    people,
    runs,
    sweeps,
)
from deployer.backend.request import Refusal
from deployer.backend.scheduling.context import Request
from deployer.backend.scheduling.suggestions import NotReady
from deployer.backend.scheduling.sweep_control import Unread

MOST_LETTERS = 100_000  # includes comments (no token) and strings (one token each)
MOST_TOKENS = 1000
MOST_FIELDS = 500
DEEPEST = 30  # each fragment is a level, too
MOST_LISTS = 20  # each may read every run of a project
LISTS = ("edges", "deployerRuns")
logger = logging.getLogger(__name__)
PARTS = (
    artifact_changes,
    artifacts,
    extension,
    files,
    people,
    runs,
    sweeps,
)
SCHEMA_FILE = Path(__file__).with_name("schema.graphql")
MOST_ERRORS = 20  # reported for a document; each costs time linear in its length
MOST_SAID = 2000  # letters of a message, which may quote the request
KNOWN_DOCUMENTS = 1000  # cached parsed and validated documents; validating costs 1 to 5 ms
Reply = tuple[int, dict[str, Any]]


@dataclass(frozen=True)
class MissingFeature:
    """An unsupported feature: its refusal message, and the names of its fields and types."""

    sentence: str
    names: frozenset[str]


def _feature(sentence: str, names: str) -> MissingFeature:
    return MissingFeature(sentence, frozenset(names.split()))


# The first match wins: automations also name types of registries.
MISSING_FEATURES = (
    _feature(
        "this server keeps no reports; its pages show projects, sweeps and runs",
        "upsertView deleteView view createViews allViews UpsertViewInput",
    ),
    _feature(
        "this server has no automations; deployer watch ends when a sweep does, with its result",
        "createFilterTrigger updateFilterTrigger deleteTrigger triggers CreateFilterTriggerInput"
        " UpdateFilterTriggerInput FilterEventTriggeringCondition ARIATriggeredAction",
    ),
    _feature(
        "this server has no integrations with Slack or webhooks",
        "createGenericWebhookIntegration integrations CreateGenericWebhookIntegrationInput"
        " SlackIntegration GenericWebhookIntegration",
    ),
    _feature(
        "users and keys of this server are made by its owner:"
        " deployer backend user add NAME --key-stdin",
        "createUser generateApiKey deleteApiKey createAnonymousEntity",
    ),
    _feature(
        "this server has no teams; every user has an entity of their own",
        "createTeam createInvite deleteInvite createServiceAccount",
    ),
    _feature(
        "this server has no launch queues; deployer up starts the agents of a sweep",
        "runQueue runQueues runQueueItem launchAgent launchAgents createRunQueue deleteRunQueues"
        " upsertRunQueue pushToRunQueue pushToRunQueueByName popFromRunQueue deleteFromRunQueue"
        " ackRunQueueItem failRunQueueItem updateRunQueueItemWarning updateLaunchAgent"
        " createLaunchAgent defaultResourceConfig createDefaultResourceConfig"
        " upsertDefaultResourceConfig",
    ),
    _feature(
        "this server has no registries and portfolios; an artifact stays in its project, where"
        " ENTITY/PROJECT/NAME:ALIAS finds it",
        "organization allowAllArtifactTypesInRegistry createArtifactPortfolio"
        " updateArtifactPortfolio deleteArtifactPortfolio ArtifactPortfolio unlinkArtifact"
        " renameProject deleteModel createProjectMembers deleteProjectMembers updateProjectMember"
        " updateProjectTeamMember teamMembers ProjectMember ProjectTeamMember RenameProjectInput",
    ),
    _feature("this server does not draw custom charts", "createCustomChart"),
)


def find_missing_feature(errors: Iterable[GraphQLError]) -> MissingFeature | None:
    """Return the unsupported feature that a document asks for, by its unknown names."""
    nodes = [node for error in errors for node in error.nodes or ()]
    unknown = {n.name.value for n in nodes if isinstance(n, FieldNode | NamedTypeNode)}
    return next((feature for feature in MISSING_FEATURES if feature.names & unknown), None)


# Limits of one GraphQL document: several times what W&B's clients send. A fragment counts wherever
# it is spread, so that a short document cannot expand to a long one.


@dataclass(frozen=True)
class Size:
    """The size of a selection, with all fragments expanded."""

    fields: int = 0
    depth: int = 0
    lists: int = 0

    def beside(self, other: Size) -> Size:
        depth = max(self.depth, other.depth)
        return Size(self.fields + other.fields, depth, self.lists + other.lists)

    def below(self) -> Size:
        return Size(self.fields, self.depth + 1, self.lists)


def find_excess(document: DocumentNode) -> GraphQLError | None:
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
        """Measure a fragment once; validation refuses one that spreads itself."""
        if name not in self._known:
            self._known[name] = Size()
            fragment = self._fragments.get(name)
            self._known[name] = self._of(fragment.selection_set if fragment else None)
        return self._known[name]


@dataclass(frozen=True)
class GraphQLRequest:
    """The body of a GraphQL request."""

    query: str
    variables: Mapping[str, Any]
    operation: str | None


def parse_question(body: Mapping[str, Any]) -> GraphQLRequest:
    """Parse the body of a request; refuse an invalid one with 400."""
    query, variables = body.get("query"), body.get("variables") or {}
    operation = body.get("operationName") or None
    if not isinstance(query, str):
        raise Refusal(400, "the request body has no text `query`")
    if not isinstance(variables, dict):
        raise Refusal(400, "the variables are not a JSON object")
    if not isinstance(operation, str | None):
        raise Refusal(400, "the operationName is not text")
    return GraphQLRequest(query, variables, operation)


class _WithoutOurFields(Visitor):
    def enter_field_definition(self, node: FieldDefinitionNode, *_: Any) -> Any:
        return REMOVE if node.name.value.startswith("deployer") else None


def build_schema(plain: bool) -> GraphQLSchema:
    """Return the schema with its resolvers; a `plain` one has no extensions of W&B's schema."""
    document = parse(write_out(SCHEMA_FILE.read_text()))
    if plain:
        document = visit(document, _WithoutOurFields())
    return make_executable(document, [part.resolvers for part in PARTS])


class GraphQL:
    """Answers GraphQL requests; caches parsed and validated documents."""

    def __init__(self, plain: bool = False) -> None:
        self._schema = build_schema(plain)
        self._known_document = lru_cache(KNOWN_DOCUMENTS)(self._checked_document)

    def _document(self, text: str) -> DocumentNode | tuple[GraphQLError, ...]:
        if len(text) > MOST_LETTERS:
            return (GraphQLError(f"the query has more than {MOST_LETTERS} characters"),)
        return self._known_document(text)

    def _checked_document(self, text: str) -> DocumentNode | tuple[GraphQLError, ...]:
        try:
            document = parse(text, max_tokens=MOST_TOKENS)
            if excess := find_excess(document):
                return (excess,)
            errors = validate(self._schema, document, max_errors=MOST_ERRORS)
        except GraphQLError as error:
            return (error,)
        except RecursionError:
            return (GraphQLError(f"the query asks for more than {DEEPEST} levels"),)
        if feature := find_missing_feature(errors):
            return (GraphQLError(feature.sentence),)
        return tuple(_as_wandb_says(error) for error in errors) or document

    def changes(self, question: GraphQLRequest) -> bool:
        """Return True if the request is a mutation; parses a document that is not cached."""
        document = self._document(question.query)
        return not isinstance(document, tuple) and any(
            isinstance(part, OperationDefinitionNode) and part.operation is OperationType.MUTATION
            for part in document.definitions
        )

    def answer(self, request: Request, question: GraphQLRequest) -> Reply:
        """Return HTTP status and JSON body; 400 for an invalid document.

        Raise NotReady or Unread for a request that must wait and be repeated.
        """
        document = self._document(question.query)
        if isinstance(document, tuple):
            return 400, _refused(*(error.message for error in document))
        result = execute_sync(
            self._schema,
            document,
            context_value=request,
            variable_values=dict(question.variables),
            operation_name=question.operation,
        )
        if not result.errors:
            return 200, {"data": result.data}
        return describe_failure(result.errors[0].original_error or result.errors[0])


def _as_wandb_says(error: GraphQLError) -> GraphQLError:
    """Quote names with ", as W&B's server does: its clients match these messages."""
    message = re.sub(r"'([$\w!\[\].]+)'", r'"\1"', error.message)
    message = re.sub(
        r'(Unknown argument ".+?" on field ")(\w+)\.(\w+)"', r'\1\3" of type "\2"', message
    )
    return GraphQLError(message)


def describe_failure(cause: Exception) -> Reply:
    """Return HTTP status and JSON body of a request that failed.

    Re-raise exceptions for a request that must wait, and for a full or unavailable disk.
    """
    if isinstance(cause, NotReady | Unread | sqlite3.OperationalError | OSError):
        raise cause
    if isinstance(cause, GraphQLError):  # such as variables of wrong types
        return 400, _refused(cause.message)
    if isinstance(cause, Refusal):
        return cause.status, _refused(cause.message)
    if isinstance(cause, BrokenProcessPool):
        logger.error("the search process was killed")
        return 503, _refused("the search process was killed; try again")
    logger.error("a resolver failed", exc_info=cause)
    return 500, _refused("internal error; see the backend's log")


def _refused(*messages: str) -> dict[str, Any]:
    return {"errors": [{"message": message[:MOST_SAID]} for message in messages], "data": None}
