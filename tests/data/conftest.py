"""Object servers for tests, one of each kind for the session; tests use folders of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.data.object_servers import ObjectServer, serve_nanio, serve_versitygw

KINDS = {"nanio": serve_nanio, "versitygw": serve_versitygw}


@pytest.fixture(
    scope="session",
    params=["nanio", pytest.param("versitygw", marks=[pytest.mark.kube, pytest.mark.full])],
)
def any_object_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ObjectServer]:
    """Serve one kind of server; versitygw where the cluster's programs are."""
    with KINDS[request.param](tmp_path_factory.mktemp(request.param)) as server:
        yield server


@pytest.fixture
def object_server(any_object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    """Return the server, with its credentials in the environment."""
    for name, value in any_object_server.environment.items():
        monkeypatch.setenv(name, value)
    return any_object_server
