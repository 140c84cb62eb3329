"""Artifacts: what is refused, in which words, and what users and agents cannot do to others'."""

from __future__ import annotations

import secrets

import pytest

from tests.backend.artifact_client import DELETE, ArtifactClient
from tests.backend.client import Client, add_user, grid
from tests.conftest import ServedBackend

ADD_ALIASES = "mutation A($input: AddAliasesInput!) { addAliases(input: $input) { success } }"
DELETE_RUN = "mutation D($input: DeleteRunInput!) { deleteRun(input: $input) { success } }"
UPDATE = (
    "mutation UpdateArtifact($input: UpdateArtifactInput!)"
    " { updateArtifact(input: $input) { artifact { id } } }"
)


def test_names_that_lead_out_of_a_folder_are_refused(log: ArtifactClient) -> None:
    for bad in ("../up", "/root", "a/../../b", "", "a\\b"):
        made = log.create("ds", f"digest of {bad}")
        with pytest.raises(AssertionError, match="invalid file name"):
            log.promise(made["id"], {bad: b""})
        log.send_manifest(made["id"], {bad: b""})
        assert "invalid file name" in log.commit(made["id"]).text
    for bad in ("a/b", "a:b", "..", "x" * 129, "a\nb"):
        with pytest.raises(AssertionError, match="invalid artifact name"):
            log.create(bad, "digest")


def test_what_is_not_there_is_refused_in_words(log: ArtifactClient) -> None:
    first = log.log("ds", {"a": b"1"})
    with pytest.raises(AssertionError, match="already exists with type dataset"):
        log.create("ds", "digest", artifactTypeName="model")
    link = "mutation L($input: LinkArtifactInput!) { linkArtifact(input: $input) { versionIndex } }"
    with pytest.raises(AssertionError, match="this server has no registry"):
        log.client.ask(link, input={"artifactID": first, "artifactPortfolioName": "p"})


def test_another_user_learns_nothing_from_a_digest(
    backend: ServedBackend, log: ArtifactClient
) -> None:
    content = secrets.token_bytes(500)
    mine = log.log("ds", {"a": content})
    name, key = f"eve-{secrets.token_hex(4)}", secrets.token_hex(20)
    add_user(backend, name, key)
    eve = Client(backend.url, key, name, log.client.project)
    eve.init_run("r")
    made = ArtifactClient(eve).create("ds", "digest")
    (url,) = ArtifactClient(eve).promise(made["id"], {"a": content})
    assert url is not None
    ArtifactClient(eve).send_manifest(made["id"], {"a": content})
    assert "1 files were not sent" in ArtifactClient(eve).commit(made["id"]).text
    for text in ("query Q($id: ID!) { artifact(id: $id) { digest } }",):
        assert eve.post(text, id=mine).status_code == 404
    for text in (UPDATE, DELETE):
        assert eve.post(text, input={"artifactID": mine}).status_code == 404


def test_an_agent_s_key_logs_to_its_own_run_alone(client: Client, log: ArtifactClient) -> None:
    shared, others = log.log("ds", {"a": b"1"}), log.log("ds", {"a": b"2"})
    sweep = client.create_sweep(grid(x=[1]))
    key = client.ask(
        "mutation K($path: String!) { deployerCreateAgentKey("
        'input: {sweepPath: $path, agentName: "a"}) { key } }',
        path=f"{client.entity}/{client.project}/{sweep}",
    )["deployerCreateAgentKey"]["key"]
    agent = Client(client.url, key, client.entity, client.project)
    run = agent.heartbeat(agent.create_agent(sweep))[0]["run_id"]
    agent.init_run(run)
    ArtifactClient(agent, run).log("model", {"w": b"weights"}, "best")
    assert log.read("model:best") == {"w": b"weights"}
    assert ArtifactClient(agent, run).log("ds", {"a": b"1"}, "mine") == shared
    assert agent.post(ADD_ALIASES, input={"artifactID": shared, "aliases": []}).status_code == 200
    everything = {"artifactID": shared, "deleteAliases": True}
    assert agent.post(DELETE, input=everything).status_code == 403  # r made it, too
    mine = {"id": agent.run(run)["id"], "deleteArtifacts": True}
    assert agent.post(DELETE_RUN, input=mine).status_code == 403
    with pytest.raises(AssertionError, match="belongs to another agent"):
        ArtifactClient(agent, "r").create("model", "digest")
    assert agent.post(DELETE, input={"artifactID": others}).status_code == 403
    assert agent.post(ADD_ALIASES, input={"artifactID": others, "aliases": []}).status_code == 403
    collection = log.versions("ds")["id"]
    drop = (
        "mutation D($id: ID!) { deleteArtifactSequence(input: {artifactSequenceID: $id})"
        " { artifactCollection { __typename state } } }"
    )
    assert agent.post(drop, id=collection).status_code == 403
    gone = client.ask(drop, id=collection)["deleteArtifactSequence"]["artifactCollection"]
    assert gone == {"__typename": "ArtifactSequence", "state": "DELETED"}
    assert log.find("ds:latest") is None
