"""What W&B has and this server has not, by the names that only such a document asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from graphql import GraphQLError
from graphql.language import FieldNode, NamedTypeNode


@dataclass(frozen=True)
class MissingFeature:
    """A feature, with the sentence that refuses it and the names of its fields and types."""

    sentence: str
    names: frozenset[str]


def _feature(sentence: str, names: str) -> MissingFeature:
    return MissingFeature(sentence, frozenset(names.split()))


# The first that fits: automations name types of registries, too.
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
    _feature("this server draws no custom charts", "createCustomChart"),
)


def find_missing_feature(errors: Iterable[GraphQLError]) -> MissingFeature | None:
    """Return the feature that a document asks for in vain, by what the schema does not know."""
    nodes = [node for error in errors for node in error.nodes or ()]
    unknown = {n.name.value for n in nodes if isinstance(n, FieldNode | NamedTypeNode)}
    return next((feature for feature in MISSING_FEATURES if feature.names & unknown), None)
