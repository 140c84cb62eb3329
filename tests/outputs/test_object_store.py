"""`results get` to an object store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.data.object_servers import BUCKET, ObjectServer, serve_nanio
from tests.outputs.conftest import Kept


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    """Serve an object store."""
    with serve_nanio(tmp_path_factory.mktemp("objects")) as found:
        yield found


@pytest.fixture
def server(served: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    """Return it, with its credentials in the environment."""
    for name, value in served.environment.items():
        monkeypatch.setenv(name, value)
    return served


def test_results_go_to_an_object_store(
    kept: Kept, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    kept.write(kept.runs[0], {"best.pt": b"weights"})
    kept.get("--to", f"s3://{BUCKET}/models")
    target = server.folder / "models" / "first" / "best.pt"
    assert target.read_bytes() == b"weights"
    kept.write(kept.runs[0], {"best.pt": b"others!"})
    kept.get("--to", f"s3://{BUCKET}/models", code=1)
    assert target.read_bytes() == b"weights"
    kept.get("--to", f"s3://{BUCKET}/models", "--overwrite")
    assert target.read_bytes() == b"others!"
