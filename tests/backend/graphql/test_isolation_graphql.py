"""Each question and each change of the schema, asked for another user's things.

A field that takes a name or an id and has no row here fails. Each row is a true one: the owner gets
an answer. What is asked is undone, so that rows do not depend on each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pytest
from graphql import GraphQLObjectType

from deployer.backend.db.accounts import find_caller
from deployer.backend.db.rows import Connection
from deployer.backend.graphql.schema import GraphQL, GraphQLRequest, Reply, build_schema
from deployer.backend.scheduling.context import Backend, Request
from tests.backend.client import Client
from tests.backend.two_users import World, find_harm, make_world, read_rows
from tests.conftest import serve_backend

RUNS = "{ edges { node { name config } } }"
ADDRESSES = "{ edges { node { directUrl } } }"
MEMBER = 'artifactCollectionMembership(name: "<collection>:<alias>")'


def of_project(selection: str, field: str = "project") -> str:
    return f'{{ {field}(name: "<project>", entityName: "<entity>") {{ {selection} }} }}'


def of_type(selection: str) -> str:
    return of_project(f'artifactType(name: "dataset") {{ {selection} }}')


def of_artifact(selection: str) -> str:
    return f'{{ artifact(id: "<artifact_id>") {{ {selection} }} }}'


def of_entity(field: str) -> str:
    return f'{{ {field}(entityName: "<entity>") {{ edges {{ node {{ runs {RUNS} }} }} }} }}'


# What somebody reads: of the query's fields all, of others those that take a name or an id.
READS = {
    "Query.viewer": "{ viewer { username apiKeys { edges { node { id } } } } }",
    "Query.users": '{ users(query: "<entity>") { edges { node { username } } } }',
    "Query.serverInfo": "{ serverInfo { features { name } } }",
    "Query.entity": '{ entity(name: "<entity>") { id } }',
    "Query.project": of_project(f"runs {RUNS} sweeps {{ edges {{ node {{ config }} }} }}"),
    "Query.model": of_project(f"buckets {RUNS}", "model"),
    "Query.projects": of_entity("projects"),
    "Query.models": of_entity("models"),
    "Query.artifact": of_artifact("description"),
    "Query.artifactCollection": '{ artifactCollection(id: "<collection_id>") { name } }',
    "Query.clientIDMapping": '{ clientIDMapping(clientID: "<client_id>") { serverID } }',
    "Query.deployerUsers": "{ deployerUsers { name keys { id label createdAt } } }",
    "Project.sweep": of_project('sweep(sweepName: "<sweep>") { config }'),
    "Project.run": of_project('run(name: "<run>") { config history }'),
    "Project.bucket": of_project('bucket(name: "<run>") { config }'),
    "Project.artifact": of_project('artifact(name: "<collection>:<alias>") { description }'),
    "Project.artifactCollectionMembership": of_project(f"{MEMBER} {{ artifact {{ size }} }}"),
    "Project.artifactCollection": of_project('artifactCollection(name: "<collection>") { id }'),
    "Project.artifactType": of_project('artifactType(name: "dataset") { id }'),
    "ArtifactType.artifact": of_type('artifact(name: "<collection>:<alias>") { description }'),
    "ArtifactType.artifactCollection": of_type('artifactCollection(name: "<collection>") { id }'),
    "ArtifactSequence.artifactMembership": '{ artifactCollection(id: "<collection_id>") {'
    ' artifactMembership(aliasName: "<alias>") { artifact { description } } } }',
    "Artifact.files": of_artifact(f'files(names: ["<file>"]) {ADDRESSES}'),
    "Artifact.filesByManifestEntries": of_artifact(
        'filesByManifestEntries(storageLayout: "V2", manifestVersion: "1",'
        f' entries: [{{name: "<file>", digest: "<md5>"}}]) {ADDRESSES}'
    ),
    "ArtifactCollectionMembership.files": of_project(
        f'{MEMBER} {{ files(names: ["<file>"]) {ADDRESSES} }}'
    ),
    "Run.files": of_project(f'run(name: "<run>") {{ files(names: ["<file>"]) {ADDRESSES} }}'),
    "Sweep.agent": of_project(
        'sweep(sweepName: "<sweep>") { agent(agentName: "<agent_name>") { id } }'
    ),
}
# What has nothing of one user's, or the asker's own.
OWN_OR_PUBLIC = {"Query.viewer", "Query.serverInfo"}
RUN_PLACE = 'entityName: "<entity>", projectName: "<project>", runName: "<run>"'
COLLECTION_PLACE = (
    'entityName: "<entity>", projectName: "<project>", artifactCollectionName: "<collection>"'
)
ALIASES = (
    'aliases: [{alias: "mine", artifactCollectionName: "<collection>", entityName: "<entity>",'
    ' projectName: "<project>"}]'
)
SWEEP_PATH = '"<entity>/<project>/<sweep>"'
# What somebody changes: the input of each mutation.
WRITES = {
    "upsertModel": 'name: "<project>", entityName: "<entity>"',
    "upsertSweep": 'id: "<sweep_id>", state: "CANCELED"',
    "enqueueSweepRun": 'id: "<sweep_id>", config: "{}"',
    "createAgent": 'host: "h", sweep: "<sweep>", projectName: "<project>", entityName: "<entity>"',
    "agentHeartbeat": 'id: "<agent_id>", metrics: "{}", runState: "{}"',
    "upsertBucket": 'name: "<run>", modelName: "<project>", entityName: "<entity>",'
    ' config: "{}", host: "h"',
    "createRunFiles": RUN_PLACE + ', files: ["more.txt"]',
    "markRunFilesUploaded": RUN_PLACE + ', files: ["<file>"]',
    "stopRun": 'id: "<run_id>"',
    "updateRunState": 'id: "<run_id>", state: "failed"',
    "deleteRun": 'id: "<run_id>", deleteArtifacts: true',
    "rewindRun": 'entityName: "<entity>", projectName: "<project>", runName: "<run>",'
    ' metricName: "_step", metricValue: 0',
    "deleteFiles": 'files: ["<file_id>"]',
    "createArtifact": 'entityName: "<entity>", projectName: "<project>", runName: "<run>",'
    ' artifactTypeName: "dataset", artifactCollectionName: "<collection>", digest: "d",'
    ' digestAlgorithm: MANIFEST_MD5, clientID: "c", sequenceClientID: "s<client_id>"',
    "createArtifactManifest": 'artifactID: "<pending>", name: "m", digest: "e",'
    ' entityName: "<entity>", projectName: "<project>", runName: "<run>"',
    "updateArtifactManifest": 'artifactManifestID: "<manifest>", digest: "e"',
    "createArtifactFiles": "storageLayout: V2,"
    ' artifactFiles: [{artifactID: "<pending>", name: "f", md5: "<md5>"}]',
    "commitArtifact": 'artifactID: "<artifact_id>"',
    "useArtifact": 'artifactID: "<artifact_id>", ' + RUN_PLACE,
    "updateArtifact": 'artifactID: "<artifact_id>", description: "mine"',
    "deleteArtifact": 'artifactID: "<artifact_id>", deleteAliases: true',
    "linkArtifact": 'artifactID: "<artifact_id>", artifactPortfolioName: "p"',
    "addAliases": 'artifactID: "<artifact_id>", ' + ALIASES,
    "deleteAliases": 'artifactID: "<artifact_id>", ' + ALIASES.replace("mine", "<alias>"),
    "updateArtifactSequence": 'artifactSequenceID: "<collection_id>", name: "mine"',
    "moveArtifactSequence": 'artifactSequenceID: "<collection_id>",'
    ' destinationArtifactTypeName: "mine"',
    "deleteArtifactSequence": 'artifactSequenceID: "<collection_id>"',
    "createArtifactCollectionTagAssignments": COLLECTION_PLACE + ', tags: [{tagName: "mine"}]',
    "deleteArtifactCollectionTagAssignments": COLLECTION_PLACE + ', tags: [{tagName: "mine"}]',
    "notifyScriptableRunAlert": RUN_PLACE + ', title: "t", text: "t"',
    "deployerCreateAgentKey": f'sweepPath: {SWEEP_PATH}, agentName: "<agent_name>"',
    "deployerRequeue": f"sweepPath: {SWEEP_PATH}, retries: 3",
    "deployerDeleteSweep": f"sweepPath: {SWEEP_PATH}",
    "deployerReportExit": 'runName: "<run>", secondsAgo: 1, exitcode: 1',
    "deployerLeave": "",
    "deployerAddUser": 'name: "more", key: "<new_key>"',
    "deployerRemoveUser": 'name: "<eve>"',
    "deployerRevokeUserKey": 'name: "<eve>", keyID: "<eve_key_id>"',
}
# Refused to the owner, too: there is no such feature, no need, or an agent's key is asked for.
REFUSED_TO_ALL = {
    *("rewindRun", "linkArtifact", "deployerReportExit", "deployerLeave"),
    "deployerRevokeUserKey",  # a user's only key
}
# Changes nothing of what is there, whoever asks.
HARMLESS = {"markRunFilesUploaded", "notifyScriptableRunAlert", "upsertModel", "commitArtifact"}
ALLOWED_TO_AGENTS = {"markRunFilesUploaded", "notifyScriptableRunAlert", "upsertModel", "Leave"}


@dataclass(frozen=True)
class Asker:
    """Asks the schema itself, beside the server, and undoes what was done."""

    world: World
    backend: Backend

    def ask(self, client: Client, text: str) -> tuple[Reply, list[str], bool]:
        """Return the reply, the harm to others' rows, and whether anything is another."""
        asked = self.world.fill(text)
        with self.undone() as db:
            before = read_rows(db)
            caller = find_caller(db, client.key)
            assert caller is not None
            reply = SCHEMA.answer(
                Request(self.backend, caller, client.url), GraphQLRequest(asked, {}, None)
            )
            mine = db.execute("SELECT id FROM projects WHERE user_id = ?", (caller.user.id,))
            projects = {row[0] for row in mine}
            own = {"users": {caller.user.id}, "keys": {caller.key_id}, "projects": projects}
            harm = find_harm(db, before, own)
            changed = read_rows(db) != before
        assert client is not self.world.eve or not self.world.leaks(json.dumps(reply), asked)
        return reply, harm, changed

    @contextmanager
    def undone(self) -> Iterator[Connection]:
        """Yield the writing connection; nothing of what is done with it stays."""
        with suppress(UndoneError), self.backend.store.transaction() as db:
            yield db
            raise UndoneError


class UndoneError(Exception):
    """Undoes a transaction."""


SCHEMA = GraphQL()


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    served = serve_backend(tmp_path_factory.mktemp("two") / "data")
    world = make_world(served)
    served.end()
    backend = Backend(served.data)
    yield Asker(world, backend)
    backend.close()


def list_fields() -> set[str]:
    """Return the fields that need a row: all of the query's, else those with a name or an id."""
    types = build_schema(plain=False).type_map.values()
    return {
        f"{one.name}.{name}"
        for one in types
        if isinstance(one, GraphQLObjectType) and one.name[:2] not in ("__", "Mu")
        for name, field in one.fields.items()
        if one.name == "Query"
        or any(re.search("(?i)(name|id)s?$|^entries$", a) for a in field.args)
    }


def test_every_field_of_the_schema_has_a_row() -> None:
    assert list_fields() == READS.keys()
    mutation = build_schema(plain=False).mutation_type
    assert mutation is not None
    assert mutation.fields.keys() == WRITES.keys()


def _of_own_entity(text: str) -> str:
    """Ask the same in the asker's own entity, where a project has the same name."""
    return text.replace("<entity>", "<eve>")


@pytest.mark.parametrize("field", READS)
def test_what_is_another_user_s_is_read_by_nobody(asker: Asker, field: str) -> None:
    (status, answer), _, _ = asker.ask(asker.world.ann, READS[field])
    assert (status, str(answer).count("None") < 2) == (200, True), answer
    seen = json.dumps(answer)
    for text in (READS[field], _of_own_entity(READS[field])):
        (status, answer), harm, _ = asker.ask(asker.world.eve, text)
        assert status in (200, 403, 404), answer
        assert not harm
        assert field in OWN_OR_PUBLIC or json.dumps(answer) != seen


@pytest.mark.parametrize("field", WRITES)
def test_what_is_another_user_s_is_changed_by_nobody(asker: Asker, field: str) -> None:
    text = _mutation(field, WRITES[field])
    (status, answer), _, changed = asker.ask(asker.world.ann, text)
    assert (status == 200) is (field not in REFUSED_TO_ALL), answer
    assert changed is (field not in REFUSED_TO_ALL | HARMLESS)
    for one in (text, _of_own_entity(text)):
        (status, answer), harm, _ = asker.ask(asker.world.eve, one)
        assert status in (200, 400, 403, 404), answer
        assert not harm, answer


def _mutation(field: str, given: str) -> str:
    return f"mutation {{ {field}(input: {{{given}}}) {{ __typename }} }}"


# What an agent could try beyond the rows above.
OF_AGENTS = {
    "an address to write to": of_project(
        'run(name: "<run>") { files { edges { node { url(upload: true) } } } }'
    ),
    "a project": _mutation("upsertModel", 'name: "of-its-own"'),
    "a run": _mutation("upsertBucket", 'name: "of-its-own", modelName: "<project>"'),
    "another agent's key": _mutation(
        "deployerCreateAgentKey", f'sweepPath: {SWEEP_PATH}, agentName: "weeder", key: "<new_key>"'
    ),
}


@pytest.mark.parametrize(
    "text",
    [*(_mutation(*row) for row in WRITES.items()), *OF_AGENTS.values()],
    ids=[*WRITES, *OF_AGENTS],
)
def test_an_agent_s_key_changes_nothing_outside_its_sweep(asker: Asker, text: str) -> None:
    (status, answer), _, changed = asker.ask(asker.world.agent, text)
    assert status in (400, 403, 404) or any(field in text for field in ALLOWED_TO_AGENTS), answer
    assert not changed, answer


def test_what_a_client_chose_for_an_id_finds_its_own_user_s(asker: Asker) -> None:
    world = asker.world
    asked = GraphQLRequest(world.fill(READS["Query.clientIDMapping"]), {}, None)
    with asker.undone() as db:
        copy = (
            "INSERT INTO artifact_collections (project_id, name, type, next_version, client_id,"
            " created_at, updated_at) SELECT id, 'mine', 'dataset', 0, ?, 0, 0 FROM projects"
            " WHERE entity = ?"
        )
        db.execute(copy, (world.names["client_id"], world.eve.entity))
        found = {}
        for client in (world.ann, world.eve):
            caller = find_caller(db, client.key)
            assert caller is not None
            reply = SCHEMA.answer(Request(asker.backend, caller, client.url), asked)
            found[client.entity] = reply[1]["data"]["clientIDMapping"]["serverID"]
    assert found[world.ann.entity] == world.names["artifact_id"]
    assert found[world.eve.entity] != found[world.ann.entity]
