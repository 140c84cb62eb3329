"""The backend that tests play by hand, and those who talk to a real one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests  # noqa: TID251 - a test is a client of its own

from tests.backend.artifact_client import ArtifactClient
from tests.backend.bench import Bench
from tests.backend.client import Client
from tests.backend.pages_browser import log_in
from tests.conftest import ServedBackend


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "data")
    yield made
    made.backend.close()


@pytest.fixture
def client(backend: ServedBackend, request: pytest.FixtureRequest) -> Client:
    """A client in a project of the test's own."""
    return Client.of(backend, re.sub(r"\W+", "-", request.node.name))


@pytest.fixture
def log(client: Client) -> ArtifactClient:
    """A run that logs artifacts."""
    client.init_run("r")
    return ArtifactClient(client)


@pytest.fixture
def browser(backend: ServedBackend) -> requests.Session:
    """A logged-in browser without its scripts."""
    session = requests.Session()
    assert log_in(session, backend.url, backend.key).status_code == 303
    return session
