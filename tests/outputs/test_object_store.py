"""`results get` from an object store, and to one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer.agent.runs.sent_outputs import main as send_outputs
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


def test_outputs_that_runs_have_sent_come_back(
    kept: Kept, server: ObjectServer, tmp_path: Path
) -> None:
    where = f"{{url: s3://{BUCKET}/kept, endpoint_url: '{server.url}'}}"
    (kept.folder / "deployer.yaml").write_text(f"outputs: {where}\n")
    outputs = tmp_path / "outputs"
    (outputs / "deep er").mkdir(parents=True)
    (outputs / "deep er" / "ü").write_bytes(b"weights")
    environment = {
        **server.environment,
        "DEPLOYER_OUTPUT_KEEP": f"s3://{BUCKET}/kept",
        "DEPLOYER_OUTPUT_ENDPOINT": server.url,
        "DEPLOYER_OUTPUT_DIR": str(outputs),
        "WANDB_SWEEP_ID": kept.sweep_id,
        "WANDB_RUN_ID": kept.runs[0],
    }
    assert send_outputs(environment, ["deep er/ü"]) == 0
    kept.get("--best")
    assert kept.read() == {"first/deep er/ü": b"weights"}


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
