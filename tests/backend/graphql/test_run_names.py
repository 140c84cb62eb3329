"""Ids and names of runs: which are refused, and that a deleted run's id stays its own."""

from __future__ import annotations

import re

import pytest

from tests.backend.client import CREATE_FILES, UPSERT_BUCKET, Client, grid
from tests.conftest import ServedBackend

DELETE = "mutation D($id: ID!) { deleteRun(input: {id: $id}) { success } }"
REFUSED = "run r was previously deleted; try again with a new run id"


@pytest.fixture
def client(backend: ServedBackend, request: pytest.FixtureRequest) -> Client:
    return Client.of(backend, re.sub(r"\W+", "-", request.node.name)[:128])


def test_what_comes_after_a_run_is_deleted_does_not_bring_it_back(client: Client) -> None:
    run_id = client.init_run("r")["id"]
    client.log("r", [{"_step": 0, "loss": 1}])
    client.ask(DELETE, id=run_id)
    # As its process sends its configuration and its name again, then its rows and its end.
    for asked in ({"name": "r"}, {"name": "r", "host": "host"}):
        refused = client.post(UPSERT_BUCKET, config="{}", **asked)
        assert (refused.status_code, REFUSED in refused.text) == (400, True)
    assert client.post(UPSERT_BUCKET, id=run_id, displayName="x").status_code == 404
    assert client.stream("r", complete=True, exitcode=0).status_code == 404
    files = client.post(CREATE_FILES, entity=client.entity, run="r", files=["x.txt"])
    assert files.status_code == 404
    assert client.run("r") is None
    assert client.init_run("another")["name"] == "another"


def test_a_deleted_run_of_a_sweep_leaves_its_id_and_not_its_configuration(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1]))
    (first,) = client.heartbeat(client.create_agent(sweep, "first"))
    client.init_run(first["run_id"])
    client.ask(DELETE, id=client.run(first["run_id"])["id"])
    (second,) = client.heartbeat(client.create_agent(sweep, "second"))
    assert second["args"] == first["args"]
    assert second["run_id"] != first["run_id"]
    assert client.stream(first["run_id"], complete=True, exitcode=1).status_code == 404
    assert client.run(second["run_id"])["state"] == "pending"


@pytest.mark.parametrize("bad", ["a/b", "../x/y", "..", " ", "a\0b", "a\nb", "a:b", "n" * 10**6])
def test_an_id_that_stands_in_no_path_is_refused(client: Client, bad: str) -> None:
    refused = client.post(UPSERT_BUCKET, name=bad, host="host", config="{}")
    (error,) = refused.json()["errors"]
    assert refused.status_code == 400
    assert error["message"] == (
        f"invalid run id {bad[:128]!r}: at most 128 printable letters, without / : and \\"
    )
    elsewhere = Client(client.url, client.key, client.entity, bad)
    assert "invalid project name" in elsewhere.post(UPSERT_BUCKET, name="r", host="h").text


def test_a_name_is_cut_and_has_no_control_characters(client: Client) -> None:
    for given, kept in (
        ("a\0b\n", "a b "),
        ("../x/ü 👩‍💻", "../x/ü 👩‍💻"),
        ("n" * 10**6, "n" * 1024),
    ):
        assert client.init_run("r", displayName=given)["displayName"] == kept
