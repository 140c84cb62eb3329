"""Artifacts kept: aliases, lists of versions, the runs that made and used them, deletion."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deployer.backend.db.accounts import ensure_project
from deployer.backend.db.artifacts import (
    PENDING_SECONDS,
    Artifact,
    create_artifact,
    delete_abandoned,
    ensure_collection,
)
from deployer.backend.db.rows import get
from deployer.backend.request import Refusal
from tests.backend.artifact_client import (
    COLLECTION,
    DELETE,
    RUN_ARTIFACTS,
    ArtifactClient,
    aliases_of,
)
from tests.backend.bench import Bench

ALIASES = "mutation A($input: {kind}AliasesInput!) {{ {verb}Aliases(input: $input) {{ success }} }}"
USE = (
    "mutation UseArtifact($input: UseArtifactInput!)"
    " { useArtifact(input: $input) { artifact { id digest } } }"
)
COLLECTIONS = (
    "query C($project: String!, $filters: JSONString, $order: String) { project(name: $project) {"
    " artifactCollections(filters: $filters, order: $order) { totalCount"
    " edges { node { name } } } } }"
)


def change_aliases(log: ArtifactClient, verb: str, artifact_id: str, *aliases: str) -> Any:
    place = {"entityName": log.client.entity, "projectName": log.client.project}
    parts = [{**place, "artifactCollectionName": "ds", "alias": alias} for alias in aliases]
    text = ALIASES.format(kind=verb.title(), verb=verb)
    return log.client.post(text, input={"artifactID": artifact_id, "aliases": parts})


def test_aliases_move_and_go(log: ArtifactClient) -> None:
    first, second = log.log("ds", {"a": b"1"}, "x"), log.log("ds", {"a": b"2"})
    assert change_aliases(log, "add", second, "x", "y").status_code == 200
    assert aliases_of(log, "ds:v1") == ["latest", "x", "y"]
    assert change_aliases(log, "delete", second, "y").status_code == 200
    assert (aliases_of(log, "ds:v0"), log.find("ds:y")) == ([], None)
    assert log.find(f"ds:v{'9' * 400}") is None
    for bad in ("v7", "a/b", "a:b", "", ".."):
        refused = change_aliases(log, "add", first, bad)
        assert (refused.status_code, "invalid artifact alias" in refused.text) == (400, True)


def test_versions_are_deleted_and_their_numbers_never_given_again(log: ArtifactClient) -> None:
    log.log("ds", {"a": b"1"})
    last = log.log("ds", {"a": b"2"}, "best")
    refused = log.client.post(DELETE, input={"artifactID": last})
    assert (refused.status_code, "artifact has aliases" in refused.text) == (400, True)
    log.client.ask(DELETE, input={"artifactID": last, "deleteAliases": True})
    assert (log.find("ds:v1"), log.find("ds:best")) == (None, None)
    assert aliases_of(log, "ds:v0") == ["latest"]
    log.log("ds", {"a": b"3"})
    assert [edge["version"] for edge in log.versions("ds")["artifacts"]["edges"]] == ["v2", "v0"]


def test_versions_come_in_pages_newest_first_while_more_are_logged(log: ArtifactClient) -> None:
    for number in range(5):
        log.log("ds", {"a": str(number).encode()})
    seen, cursor = [], None
    while True:
        page = log.versions("ds", first=2, after=cursor)["artifacts"]
        seen += [edge["version"] for edge in page["edges"]]
        log.log("ds", {"new": str(seen).encode()})
        cursor = page["pageInfo"]["endCursor"]
        if not page["pageInfo"]["hasNextPage"]:
            break
    assert (seen, page["totalCount"]) == (["v4", "v3", "v2", "v1", "v0"], 7)


def test_versions_and_collections_by_filter_and_order(log: ArtifactClient) -> None:
    for number in range(3):
        log.log("ds", {"a": b"x" * number}, metadata=json.dumps({"rows": {"n": number}}))
    log.log("other", {}, artifactTypeName="model")

    def versions(filters: Any = None, order: str | None = None) -> list[str]:
        page = log.versions("ds", filters=json.dumps(filters), order=order)["artifacts"]
        return [edge["version"] for edge in page["edges"]]

    assert versions({"state": "COMMITTED"}) == ["v2", "v1", "v0"]
    assert versions({"metadata.rows.n": {"$gte": 1}}, "+createdAt") == ["v1", "v2"]
    assert versions({"size": {"$lt": 2}}, "-versionIndex") == ["v1", "v0"]
    with pytest.raises(AssertionError, match="unknown key"):
        versions({"nonsense": 1})
    reply = log.client.ask(COLLECTIONS, filters='{"type": "model"}', order=None)["project"]
    assert [edge["node"]["name"] for edge in reply["artifactCollections"]["edges"]] == ["other"]
    reply = log.client.ask(COLLECTIONS, filters=None, order="+name")["project"]
    assert [edge["node"]["name"] for edge in reply["artifactCollections"]["edges"]] == [
        "ds",
        "other",
    ]


def test_runs_know_what_they_made_and_used(log: ArtifactClient) -> None:
    client = log.client
    first = log.log("ds", {"a": b"1"})
    client.init_run("user")
    place = {"entityName": client.entity, "projectName": client.project, "runName": "user"}
    for _ in range(2):
        assert client.ask(USE, input={**place, "artifactID": first})["useArtifact"]
    found = log.find("ds:v0")
    assert found is not None
    assert found["artifact"]["usedBy"]["edges"] == [{"node": {"name": "user"}}]
    maker, user = (client.ask(RUN_ARTIFACTS, run=name)["project"]["run"] for name in ("r", "user"))
    nodes = [{"node": {"versionIndex": 0}}]
    assert (maker["out"], maker["in"]["totalCount"]) == ({"edges": nodes, "totalCount": 1}, 0)
    assert (user["in"], user["out"]["totalCount"]) == ({"edges": nodes, "totalCount": 1}, 0)


def test_a_deleted_run_leaves_its_artifacts_unless_they_are_to_go(log: ArtifactClient) -> None:
    delete = (
        "mutation D($id: ID!, $all: Boolean)"
        " { deleteRun(input: {id: $id, deleteArtifacts: $all}) { success } }"
    )
    client = log.client
    log.log("ds", {"a": b"1"})
    client.ask(delete, id=client.run("r")["id"])
    found = log.find("ds:v0")
    assert found is not None
    assert found["artifact"]["createdBy"] == {"__typename": "User"}
    other = client.init_run("s")["id"]
    ArtifactClient(client, "s").log("ds", {"a": b"2"})
    client.ask(delete, id=other, all=True)
    assert (log.find("ds:v1"), aliases_of(log, "ds:v0")) == (None, ["latest"])


def test_what_was_begun_and_never_completed_is_given_up(bench: Bench) -> None:
    with bench.backend.store.transaction() as db:
        project = ensure_project(db, bench.me, None, "p", 0)
        collection = ensure_collection(db, project, "ds", "dataset", None, 0)
        begun = create_artifact(db, collection, bench.me.user.id, 0, digest="d")
        delete_abandoned(db, PENDING_SECONDS)
        assert get(db, Artifact, begun.id) == begun
        delete_abandoned(db, PENDING_SECONDS + 1)
        with pytest.raises(Refusal, match="artifact not found"):
            get(db, Artifact, begun.id)


def test_a_type_without_artifacts_has_no_collections(log: ArtifactClient) -> None:
    """Of one that never was, too: the SDK follows the answer without a look."""
    log.log("a", {"x": b"x"})
    deletion = (
        "mutation D($id: ID!) { deleteArtifactSequence(input: {artifactSequenceID: $id})"
        " { artifactCollection { state } } }"
    )
    row = log.client.ask(COLLECTION, name="a")["project"]["artifactCollection"]
    log.client.ask(deletion, id=row["id"])
    listing = (
        "query C($project: String!, $type: String!) { project(name: $project) {"
        " artifactType(name: $type) { artifactCollections { edges { node { id } } } } } }"
    )
    for kind in ("model", "dataset", "never"):
        found = log.client.ask(listing, type=kind)["project"]["artifactType"]
        assert found == {"artifactCollections": {"edges": []}}
    types = (
        "query T($project: String!) { project(name: $project) {"
        ' artifactTypes { edges { node { name } } } artifactType(name: "never") { id name } } }'
    )
    project = log.client.ask(types)["project"]
    assert len(project["artifactTypes"]["edges"]) == 1
    assert project["artifactType"] is None
