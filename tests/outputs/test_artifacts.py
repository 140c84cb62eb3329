"""Files of artifacts: read from any place on, verified, and from a new address if one expires."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deployer.errors import DataError
from deployer.model import SweepPath
from deployer.outputs.stores import ArtifactStore
from deployer.wandb_api.artifacts import ArtifactFile, RunArtifact, list_artifacts
from deployer.wandb_api.client import Client
from tests.conftest import ServedBackend
from tests.outputs.conftest import Kept

CONTENT = bytes(range(256)) * 9000


def find(kept: Kept, backend: ServedBackend) -> tuple[Client, RunArtifact]:
    """Log an artifact and read it back."""
    kept.log(kept.runs[0], "model", {"weights": CONTENT}, artifactTypeName="model")
    client = Client(backend.url, backend.key)
    path = SweepPath(kept.client.entity, kept.client.project, kept.sweep_id)
    [artifact] = list_artifacts(client, path, kept.runs[0])
    return client, artifact


def change(artifact: RunArtifact, **changes: str) -> RunArtifact:
    [file] = artifact.files
    changed: ArtifactFile = replace(file, **changes)  # type: ignore[arg-type]
    return replace(artifact, files=(changed,))


@pytest.mark.parametrize("sha256", ["", "known"])
@pytest.mark.parametrize("offset", [0, 1, 1 << 20, len(CONTENT)])
def test_a_file_is_read_from_anywhere(
    kept: Kept, backend: ServedBackend, sha256: str, offset: int
) -> None:
    client, artifact = find(kept, backend)
    store = ArtifactStore(client, change(artifact, sha256=sha256))
    assert b"".join(store.read("weights", offset)) == CONTENT[offset:]


def test_wrong_bytes_and_expired_addresses(kept: Kept, backend: ServedBackend) -> None:
    client, artifact = find(kept, backend)
    store = ArtifactStore(client, change(artifact, md5="0" * 32))
    with pytest.raises(DataError, match="weights does not match its checksum") as caught:
        list(store.read("weights"))
    assert caught.value.passing
    old = f"{backend.url}/download/artifact_files/1/1/{'0' * 40}/weights"
    assert b"".join(ArtifactStore(client, change(artifact, url=old)).read("weights")) == CONTENT
    elsewhere = ArtifactStore(client, change(artifact, url=""))
    with pytest.raises(DataError, match="the server has no download address for a file"):
        list(elsewhere.read("weights"))
    with pytest.raises(DataError, match="weights is read-only"):
        store.delete("weights")
