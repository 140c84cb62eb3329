"""Artifacts logged, request by request: what becomes a version, and what is kept once."""

from __future__ import annotations

import base64
import secrets
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests  # noqa: TID251 - a test is a client of its own

from tests.backend.artifact_client import (
    RUN_ARTIFACTS,
    ArtifactClient,
    aliases_of,
    manifest_text,
    md5_of,
    put,
)
from tests.backend.client import Client, add_user
from tests.conftest import ServedBackend


def test_a_version_reads_back_as_it_was_logged(log: ArtifactClient) -> None:
    files = {"a.txt": b"alpha", "inner/b.bin": secrets.token_bytes(70_000), "empty": b""}
    log.log("ds", files, "best", metadata='{"rows": 3}', description="D")
    found = log.find("ds:v0")
    assert found is not None
    artifact = found["artifact"]
    assert (artifact["state"], artifact["size"], artifact["fileCount"]) == ("COMMITTED", 70005, 3)
    assert (artifact["metadata"], artifact["description"]) == ('{"rows": 3}', "D")
    assert artifact["createdBy"] == {"__typename": "Run", "name": "r"}
    assert artifact["artifactType"] == {"name": "dataset"}
    assert aliases_of(log, "ds:latest") == ["best", "latest"]
    assert log.read("ds:best") == files
    assert requests.get(artifact["currentManifest"]["file"]["directUrl"], timeout=5).content == (
        manifest_text(files, {})
    )


def test_the_same_content_is_the_same_version(log: ArtifactClient) -> None:
    first = log.log("ds", {"a": b"1"}, "one")
    second = log.log("ds", {"a": b"2"})
    assert log.log("ds", {"a": b"1"}, "again") == first
    assert log.versions("ds")["artifacts"]["totalCount"] == 2
    assert aliases_of(log, "ds:v0") == ["again", "one"]
    assert aliases_of(log, "ds:v1") == ["latest"]
    assert log.log("other", {"a": b"1"}) not in (first, second)


def test_a_request_whose_answer_was_lost_begins_nothing_twice(log: ArtifactClient) -> None:
    first = log.create("ds", "digest", clientID="mine")
    assert log.create("ds", "digest", clientID="mine") == first
    log.send_manifest(first["id"], {})
    assert [log.commit(first["id"]).status_code for _ in range(2)] == [200, 200]
    assert log.create("ds", "digest", clientID="mine")["state"] == "COMMITTED"
    assert log.versions("ds")["artifacts"]["totalCount"] == 1


def test_bytes_that_the_server_has_are_not_sent_again(log: ArtifactClient) -> None:
    content = secrets.token_bytes(3000)
    log.log("ds", {"a": content})
    other = log.create("other", "digest")
    assert log.promise(other["id"], {"b": content, "c": content}) == [None, None]
    log.send_manifest(other["id"], {"b": content, "c": content})
    assert log.commit(other["id"]).status_code == 200
    assert log.read("other:latest") == {"b": content, "c": content}


def test_nothing_is_committed_until_all_of_it_is_there(log: ArtifactClient) -> None:
    content = secrets.token_bytes(100)
    made = log.create("ds", "digest")
    assert "its manifest was not sent" in log.commit(made["id"]).text
    (url,) = log.promise(made["id"], {"a": content})
    log.send_manifest(made["id"], {"a": content})
    refused = log.commit(made["id"])
    assert (refused.status_code, "1 files were not sent: a" in refused.text) == (400, True)
    assert url is not None
    damaged = requests.put(url, data=content[:-1], timeout=5)
    assert (damaged.status_code, "was received damaged" in damaged.text) == (400, True)
    assert log.commit(made["id"]).status_code == 400
    assert log.find("ds:latest") is None
    put(url, content)
    assert log.commit(made["id"]).status_code == 200
    assert (
        "cannot change"
        in log.client.post(
            "mutation F($input: CreateArtifactFilesInput!) { createArtifactFiles(input: $input)"
            " { files { edges { node { uploadUrl } } } } }",
            input={
                "artifactFiles": [{"artifactID": made["id"], "name": "b", "md5": md5_of(b"")}],
                "storageLayout": "V2",
            },
        ).text
    )


def test_bytes_of_a_refused_commit_are_never_read_as_another_users(
    backend: ServedBackend, log: ArtifactClient
) -> None:
    base = log.log("ds", {"a": b"1"})
    made = log.create("ds", "digest")
    send_changes(log, made["id"], base, {"never": b"sent"})
    assert "1 files were not sent: never" in log.commit(made["id"]).text

    name, key = f"eve-{secrets.token_hex(4)}", secrets.token_hex(20)
    add_user(backend, name, key)
    client = Client(backend.url, key, name, log.client.project)
    client.init_run("r")
    other = ArtifactClient(client)
    files = {"model": secrets.token_bytes(100)}
    other.log("model", files)
    assert other.read("model:v0") == files


def test_runs_that_log_the_same_at_once_share_one_version(log: ArtifactClient) -> None:
    client = log.client
    client.init_run("other")
    other = ArtifactClient(client, "other")
    files = {"a": secrets.token_bytes(100)}
    alias = {"artifactCollectionName": "ds", "alias": "second"}
    made = log.create("ds", "digest", clientID="one")
    assert other.create("ds", "digest", clientID="two", aliases=[alias])["id"] == made["id"]
    (url,), (again,) = log.promise(made["id"], files), other.promise(made["id"], files)
    put(str(url), files["a"])
    log.send_manifest(made["id"], files)
    assert log.commit(made["id"]).status_code == 200
    put(str(again), files["a"])
    assert other.promise(made["id"], files) == [None]
    other.send_manifest(made["id"], files)
    assert other.commit(made["id"]).status_code == 200
    assert log.versions("ds")["artifacts"]["totalCount"] == 1
    assert aliases_of(log, "ds:v0") == ["latest", "second"]
    assert log.read("ds:v0") == files
    for run in ("r", "other"):
        found = client.ask(RUN_ARTIFACTS, run=run)["project"]["run"]
        assert found["out"]["totalCount"] == 1


def test_many_at_once_get_numbers_of_their_own(log: ArtifactClient) -> None:
    contents = [str(number % 4).encode() for number in range(12)]
    with ThreadPoolExecutor(12) as threads:
        ids = list(threads.map(lambda content: log.log("ds", {"a": content}), contents))
    edges = log.versions("ds")["artifacts"]["edges"]
    assert [edge["version"] for edge in edges] == ["v3", "v2", "v1", "v0"]
    assert {edge["node"]["id"] for edge in edges} == set(ids)
    for content, artifact_id in zip(contents, ids, strict=True):
        version = next(edge["version"] for edge in edges if edge["node"]["id"] == artifact_id)
        assert log.read(f"ds:{version}") == {"a": content}


def test_references_are_listed_and_kept_elsewhere(log: ArtifactClient) -> None:
    made = log.create("ds", "digest")
    log.send_manifest(made["id"], {}, far="s3://bucket/key")
    assert log.commit(made["id"]).status_code == 200
    found = log.find("ds:v0")
    assert found is not None
    node = found["files"]["edges"][0]["node"]
    assert (node["displayName"], node["directUrl"], node["md5"]) == ("far", "s3://bucket/key", None)
    assert found["artifact"]["size"] == 7


def test_a_reference_is_never_fetched_by_the_server(
    log: ArtifactClient, browser: requests.Session
) -> None:
    """Neither its address nor a path of the server's machine, whoever asks for it."""
    with socket.create_server(("127.0.0.1", 0)) as trap:
        refs = {"far": f"http://127.0.0.1:{trap.getsockname()[1]}/x", "near": "file:///etc/passwd"}
        made = log.create("ds", "digest")
        log.send_manifest(made["id"], {}, **refs)
        assert log.commit(made["id"]).status_code == 200
        found = log.find("ds:v0")
        assert found is not None
        nodes = [edge["node"] for edge in found["files"]["edges"]]
        assert {node["displayName"]: node["directUrl"] for node in nodes} == refs
        place = f"{log.client.entity}/{log.client.project}"
        page = f"{log.client.url}/api/pages/{place}/artifacts/dataset/ds/v0"
        assert browser.get(page, timeout=30).status_code == 200
        for name in refs:
            assert browser.get(f"{page}/files/{name}", timeout=30).status_code == 404
        trap.settimeout(0)
        with pytest.raises(BlockingIOError):
            trap.accept()


def send_changes(
    log: ArtifactClient, artifact_id: str, base: str, files: Mapping[str, bytes]
) -> None:
    """Send the manifest of what an incremental version adds to its base."""
    manifest = manifest_text(files, {})
    begin = (
        "mutation U($id: ID!, $digest: String, $base: ID) { updateArtifactManifest(input:"
        " {artifactManifestID: $id, digest: $digest, baseArtifactID: $base})"
        " { artifactManifest { file { uploadUrl } } } }"
    )
    log.manifest_url(artifact_id, manifest, "INCREMENTAL")
    number = base64.b64decode(artifact_id).decode().partition(":")[2]
    manifest_id = base64.b64encode(f"ArtifactManifest:{number}".encode()).decode()
    reply = log.client.ask(begin, id=manifest_id, digest=md5_of(manifest), base=base)
    put(reply["updateArtifactManifest"]["artifactManifest"]["file"]["uploadUrl"], manifest)


def test_an_incremental_version_adds_to_its_base(log: ArtifactClient) -> None:
    newer = secrets.token_bytes(9)
    base = log.log("ds", {"a": b"1", "b": b"2"})
    made = log.create("ds", "digest")
    assert made["artifactSequence"]["latestArtifact"]["id"] == base
    (url,) = log.promise(made["id"], {"b": newer})
    put(str(url), newer)
    send_changes(log, made["id"], base, {"b": newer})
    assert log.commit(made["id"]).status_code == 200
    assert log.read("ds:latest") == {"a": b"1", "b": newer}


def test_a_single_file_is_fetched_by_its_digest_with_a_key(log: ArtifactClient) -> None:
    content = secrets.token_bytes(50)
    log.log("ds", {"in/a.bin": content})
    client = log.client
    digest = base64.b64decode(md5_of(content)).hex()
    place = f"{client.url}/artifactsV2/default/{client.entity}/{client.project}/ds"
    for url in (f"{place}/birth/{digest}/a.bin", f"{place}/{digest}/a.bin"):
        assert requests.get(url, auth=("api", client.key), timeout=5).content == content
        assert requests.get(url, timeout=5).status_code == 401
    unknown = requests.get(f"{place}/{'0' * 32}/a.bin", auth=("api", client.key), timeout=5)
    assert unknown.status_code == 404


def test_a_region_that_nobody_has_is_refused(log: ArtifactClient) -> None:
    assert log.create("here", "1", storageRegion="default")["state"] == "PENDING"
    with pytest.raises(AssertionError, match="this server has no storage region 'mars'"):
        log.create("there", "2", storageRegion="mars")


def test_the_step_of_a_version_is_the_one_that_its_run_tells(log: ArtifactClient) -> None:
    log.client.log("r", [{"_step": 7}])
    read = "query A($id: ID!) { artifact(id: $id) { historyStep } }"
    for step in (None, 7, 2**31):
        made = log.create("stepped", f"of {step}", historyStep=step)
        assert log.client.ask(read, id=made["id"])["artifact"]["historyStep"] == step
