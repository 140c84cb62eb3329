"""Artifacts on the results pages: of a run, of a project, and a page for each version."""

from __future__ import annotations

import json

import requests  # noqa: TID251 - a test is a client of its own

from tests.backend.artifact_client import ArtifactClient
from tests.backend.client import Client
from tests.backend.pages_browser import page, read

USE = """
mutation UseArtifact($artifactID: ID!, $entity: String!, $project: String!, $run: String!) {
  useArtifact(input: {artifactID: $artifactID, entityName: $entity, projectName: $project,
    runName: $run}) { artifact { id } } }
"""


def test_a_run_lists_what_it_logged_and_used(
    client: Client, browser: requests.Session, log: ArtifactClient
) -> None:
    log.log("data", {"a.txt": b"one"})
    newer = log.log("data", {"a.txt": b"three"}, "best")
    client.init_run("reader")
    client.ask(USE, artifactID=newer, entity=client.entity, run="reader")
    keys = ("role", "name", "version", "type", "aliases", "size_bytes")

    def rows(run: str) -> list[tuple[object, ...]]:
        found = read(browser, client, f"/runs/{run}")["artifacts"]
        return [tuple(row[key] for key in keys) for row in found]

    assert rows("reader") == [("used", "data", "v1", "dataset", ["best", "latest"], 5)]
    assert rows("r") == [
        ("logged", "data", "v0", "dataset", [], 3),
        ("logged", "data", "v1", "dataset", ["best", "latest"], 5),
    ]
    (recent,) = read(browser, client)["artifacts"]
    assert (recent["name"], recent["version"], recent["file_count"]) == ("data", "v1", 1)


def test_a_version_shows_its_files_the_others_and_its_runs(
    client: Client, browser: requests.Session, log: ArtifactClient
) -> None:
    nasty = b"<script>alert(1)</script>"
    log.log("data", {"a.txt": b"one"}, metadata=json.dumps({"rows": {"train": 3}}))
    log.log("data", {"a b/x.html": nasty}, "best")
    place = "/artifacts/dataset/data"
    for version in ("", "/v1", "/best"):
        data = read(browser, client, place + version)
        assert data["title"] == "data:v1"
    assert data["files"] == [{"name": "a b/x.html", "size_bytes": len(nasty), "reference": None}]
    assert [(row["version"], row["aliases"]) for row in data["versions"]] == [
        ("v1", ["best", "latest"]),
        ("v0", []),
    ]
    assert [(row["id"], row["role"]) for row in data["runs"]] == [("r", "logged")]
    assert read(browser, client, place + "/v0")["metadata"] == {"rows.train": 3}
    assert browser.get(page(client, place + "/v0"), timeout=30).status_code == 200

    files = f"{client.url}/api/pages/{client.entity}/{client.project}{place}/best/files"
    file = browser.get(f"{files}/a%20b/x.html", timeout=30)
    assert file.content == nasty
    assert file.headers["content-disposition"].startswith("attachment")
    assert browser.get(f"{files}/other", timeout=30).status_code == 404
    for missing in ("/v7", "/none"):
        assert browser.get(page(client, place + missing), timeout=30).status_code == 404
    assert browser.get(page(client, "/artifacts/model/data"), timeout=30).status_code == 404
    assert requests.get(f"{files}/a%20b/x.html", timeout=30).status_code == 401
