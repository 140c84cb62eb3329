"""Another user's key, and another sweep's agent's, tried on every field that takes a name or id.

A field of the schema without a row fails the tests.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from graphql import GraphQLArgument, GraphQLObjectType, get_named_type

from deployer.backend.graphql.schema import build_schema
from deployer.backend.server.users import add_user
from tests.backend.client import Client, grid
from tests.backend.estate import WRITE_KEY, Estate, make_estate, read_all
from tests.conftest import ServedBackend, serve_backend

SCHEMA = build_schema(plain=False)
PLACE: dict[str, Any] = {"entityName": "{entity}", "projectName": "{project}"}
RUN = {**PLACE, "runName": "{run}"}
ARTIFACT = {"artifactID": "{artifact_id}"}
SEQUENCE = {"artifactSequenceID": "{collection_id}"}
ALIAS = {**PLACE, "artifactCollectionName": "data", "alias": "stolen"}
TAGS = {**PLACE, "artifactCollectionName": "data", "tags": [{"tagName": "stolen"}]}
USER = {"name": "{entity}", "key": "k" * 40}

# What each mutation is asked to do to things of the first user.
MUTATIONS: dict[str, dict[str, Any]] = {
    "upsertModel": {"entityName": "{entity}", "name": "stolen"},
    "upsertSweep": {"id": "{sweep_id}", "state": "CANCELED"},
    "enqueueSweepRun": {"id": "{sweep_id}", "config": "{{}}"},
    "createAgent": {**PLACE, "host": "h", "sweep": "{sweep}"},
    "agentHeartbeat": {"id": "{agent_id}", "metrics": "{{}}", "runState": "{{}}"},
    "upsertBucket": {"id": "{run_id}", "displayName": "stolen", "tags": ["stolen"]},
    "createRunFiles": {**RUN, "files": ["{file}"]},
    "markRunFilesUploaded": {**RUN, "files": ["{file}"]},
    "stopRun": {"id": "{run_id}"},
    "updateRunState": {"id": "{run_id}", "state": "failed"},
    "deleteRun": {"id": "{run_id}", "deleteArtifacts": True},
    "rewindRun": {**RUN, "metricName": "_step", "metricValue": 0},
    "deleteFiles": {"files": ["{file_id}"]},
    "createArtifact": {
        **RUN,
        "artifactTypeName": "dataset",
        "artifactCollectionName": "data",
        "digest": "stolen",
        "digestAlgorithm": "MANIFEST_MD5",
    },
    "createArtifactManifest": {**RUN, **ARTIFACT, "name": "wandb_manifest.json", "digest": "d"},
    "updateArtifactManifest": {"artifactManifestID": "{manifest_id}", "digest": "d"},
    "createArtifactFiles": {
        "artifactFiles": [{**ARTIFACT, "name": "{artifact_file}", "md5": "{md5}"}],
        "storageLayout": "V2",
    },
    "commitArtifact": ARTIFACT,
    "useArtifact": {**RUN, **ARTIFACT},
    "updateArtifact": {**ARTIFACT, "description": "stolen"},
    "deleteArtifact": {**ARTIFACT, "deleteAliases": True},
    "linkArtifact": {**ARTIFACT, **PLACE, "artifactPortfolioName": "stolen"},
    "addAliases": {**ARTIFACT, "aliases": [ALIAS]},
    "deleteAliases": {**ARTIFACT, "aliases": [{**ALIAS, "alias": "{alias}"}]},
    "updateArtifactSequence": {**SEQUENCE, "name": "stolen"},
    "moveArtifactSequence": {**SEQUENCE, "destinationArtifactTypeName": "stolen"},
    "deleteArtifactSequence": SEQUENCE,
    "createArtifactCollectionTagAssignments": TAGS,
    "deleteArtifactCollectionTagAssignments": TAGS,
    "notifyScriptableRunAlert": {**RUN, "title": "t", "text": "t"},
    "deployerCreateAgentKey": {"sweepPath": "{path}", "agentName": "a"},
    "deployerRequeue": {"sweepPath": "{path}"},
    "deployerDeleteSweep": {"sweepPath": "{path}"},
    "deployerReportExit": {"runName": "{run_at_work}", "secondsAgo": 0.0, "exitcode": 1},
    "deployerLeave": {},
    "deployerAddUser": {"name": "more", "key": "k" * 40},
    "deployerRemoveUser": {"name": "{entity}"},
    "deployerAddUserKey": {**USER, "only": True},
    "deployerRotateUserKey": {**USER, "keyID": "{key_id}"},
    "deployerRevokeUserKey": {"name": "{entity}", "keyID": "{key_id}"},
}
# Those that answer and do nothing, whoever is meant.
HARMLESS = {"deployerLeave", "markRunFilesUploaded", "notifyScriptableRunAlert"}

PROJECT = 'project(name: "{project}", entityName: "{entity}")'
MINE = 'project(name: "mine") {{ '
MY_SWEEP = MINE + 'sweep(sweepName: "{my_sweep}") {{ '
# What each query is asked: of the first user's, by the root or within what is the asker's own.
QUERIES = {
    "Query.users": 'users(query: "{entity}") {{ edges {{ node {{ name }} }} }}',
    "Query.entity": 'entity(name: "{entity}") {{ id name members {{ name }} }}',
    "Query.project": PROJECT + " {{ id runs {{ edges {{ node {{ name config }} }} }} }}",
    "Query.model": PROJECT.replace("project(", "model(", 1) + " {{ id createdAt }}",
    "Query.projects": 'projects(entityName: "{entity}") {{ edges {{ node {{ name }} }} }}',
    "Query.models": 'models(entityName: "{entity}") {{ edges {{ node {{ name }} }} }}',
    "Query.artifact": 'artifact(id: "{artifact_id}") {{ id digest description }}',
    "Query.artifactCollection": 'artifactCollection(id: "{collection_id}") {{ id name }}',
    "Query.clientIDMapping": 'clientIDMapping(clientID: "{client_id}") {{ serverID }}',
    "Query.deployerUserKeys": 'deployerUserKeys(name: "{entity}") {{ id label }}',
    "Project.sweep": MINE + 'sweep(sweepName: "{sweep}") {{ id config }} }}',
    "Project.run": MINE + 'run(name: "{run}") {{ id config }} }}',
    "Project.bucket": MINE + 'bucket(name: "{run}", missingOk: true) {{ id config }} }}',
    "Project.allViews": MINE + 'allViews(viewName: "{run}") {{ edges {{ node {{ id }} }} }} }}',
    "Project.artifact": MINE + 'artifact(name: "data:v0") {{ id }} }}',
    "Project.artifactCollectionMembership": MINE
    + 'artifactCollectionMembership(name: "data:{alias}") {{ id }} }}',
    "Project.artifactCollection": MINE + 'artifactCollection(name: "data") {{ id }} }}',
    "Project.artifactType": MINE + 'artifactType(name: "dataset") {{ id }} }}',
    "ArtifactType.artifact": MINE
    + 'artifactType(name: "own") {{ artifact(name: "data:v0") {{ id }} }} }}',
    "ArtifactType.artifactCollection": MINE
    + 'artifactType(name: "own") {{ artifactCollection(name: "data") {{ id }} }} }}',
    "Sweep.agent": MY_SWEEP + 'agent(agentName: "{agent}") {{ id host }} }} }}',
    "Run.files": MINE
    + 'run(name: "mine") {{ files(names: ["{file}"]) {{ edges {{ node {{ id }} }} }} }} }}',
    "Artifact.files": 'artifact(id: "{my_artifact_id}")'
    ' {{ files(names: ["{artifact_file}"]) {{ edges {{ node {{ id }} }} }} }}',
    "Artifact.filesByManifestEntries": 'artifact(id: "{my_artifact_id}") {{ filesByManifestEntries('
    'storageLayout: "V2", manifestVersion: "1", entries: [{{name: "{artifact_file}",'
    ' digest: "{base64}", birthArtifactID: "{artifact_id}"}}])'
    " {{ edges {{ node {{ id directUrl }} }} }} }}",
    "ArtifactCollectionMembership.files": MINE + 'artifactCollectionMembership(name: "mine:v0")'
    ' {{ files(names: ["{artifact_file}"]) {{ edges {{ node {{ id }} }} }} }} }}',
    "ArtifactSequence.artifactMembership": MINE + 'artifactCollection(name: "mine")'
    ' {{ artifactMembership(aliasName: "{alias}") {{ id }} }} }}',
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBackend]:
    made = serve_backend(tmp_path_factory.mktemp("others") / "data")
    yield made
    made.process.terminate()
    made.process.wait(20)


@pytest.fixture(scope="module")
def first(served: ServedBackend) -> Estate:
    return make_estate(Client.of(served, "p"))


@pytest.fixture(scope="module")
def second(served: ServedBackend) -> Estate:
    """Another user, who has the same things under other names."""
    name, key = f"eve-{secrets.token_hex(4)}", secrets.token_hex(20)
    add_user(served.data, name, key)
    return make_estate(Client(served.url, key, name, "mine"), run="mine", collection="mine")


@pytest.fixture(scope="module")
def agent(first: Estate) -> Client:
    """An agent of another sweep of the first user's."""
    path = f"{first.client.entity}/p/{first.client.create_sweep(grid(x=[1]))}"
    key = first.client.ask(WRITE_KEY, path=path)["deployerCreateAgentKey"]["key"]
    return Client(first.client.url, key, first.client.entity, "p")


def fill(value: Any, names: dict[str, str]) -> Any:
    """Put the first user's names and ids into a row of a table."""
    if isinstance(value, dict):
        return {name: fill(part, names) for name, part in value.items()}
    if isinstance(value, list):
        return [fill(part, names) for part in value]
    return value.format(**names) if isinstance(value, str) else value


def fields_of(kind: str) -> list[tuple[str, dict[str, GraphQLArgument]]]:
    found = SCHEMA.type_map[kind]
    assert isinstance(found, GraphQLObjectType)
    return [(name, field.args) for name, field in found.fields.items()]


def names_something(argument: str) -> bool:
    exact = ("id", "ids", "name", "names", "entries", "query")
    return argument in exact or argument.endswith(("Name", "Id", "ID", "Path"))


def test_every_field_that_takes_a_name_or_an_id_has_a_row() -> None:
    kinds = [k for k, t in SCHEMA.type_map.items() if isinstance(t, GraphQLObjectType)]
    asked = {
        f"{kind}.{name}"
        for kind in kinds
        if kind != "Mutation" and not kind.startswith("__")
        for name, arguments in fields_of(kind)
        if any(map(names_something, arguments))
    }
    assert asked == set(QUERIES)
    assert {name for name, _ in fields_of("Mutation")} == set(MUTATIONS)


def mutate(client: Client, field: str, names: dict[str, str]) -> tuple[int, str]:
    arguments = dict(fields_of("Mutation"))[field]
    kind = get_named_type(arguments["input"].type).name
    text = f"mutation M($input: {kind}!) {{ {field}(input: $input) {{ __typename }} }}"
    reply = client.post(text, input=fill(MUTATIONS[field], names))
    return reply.status_code, reply.text


@pytest.mark.parametrize("field", MUTATIONS)
@pytest.mark.parametrize("who", ["another user", "another sweep's agent"])
def test_nothing_of_others_is_changed(
    served: ServedBackend, first: Estate, second: Estate, agent: Client, who: str, field: str
) -> None:
    client = second.client if who == "another user" else agent
    before = read_all(served)
    status, text = mutate(client, field, first.names)
    assert read_all(served) == before, text
    assert status in (400, 403, 404, *[200] * (field in HARMLESS)), text
    assert who != "another user" or first.word not in text


@pytest.mark.parametrize("field", QUERIES)
def test_nothing_of_others_is_read(first: Estate, second: Estate, field: str) -> None:
    mine = {f"my_{name}": value for name, value in second.names.items()}
    reply = second.client.post("{" + fill(QUERIES[field], {**first.names, **mine}) + "}")
    data = reply.json()["data"]
    assert reply.status_code in (200, 404, 403), reply.text
    for name in ("word", "run_id", "artifact_id", "sweep_id", "collection_id"):
        secret = first.word if name == "word" else first.names[name]
        assert secret not in reply.text
    assert not leaves(data), reply.text


def leaves(data: Any) -> list[Any]:
    """Return what a reply holds beside empty lists and nothing."""
    if isinstance(data, dict):
        return [leaf for part in data.values() for leaf in leaves(part)]
    if isinstance(data, list):
        return [leaf for part in data for leaf in leaves(part)]
    return [] if data is None else [data]
