"""The SDK under a key that has its share: it waits and tries again, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests  # noqa: TID251 - a test is a client of its own

from tests.backend.client import Client
from tests.conftest import serve_backend

RUN = """
import wandb
run = wandb.init(project="busy")
for n in range(20):
    run.log({"n": n})
run.finish()
"""


@pytest.mark.full
@pytest.mark.slow(seconds=15)
def test_the_sdk_tries_again_what_was_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("DEPLOYER_BACKEND_MOST_REQUESTS", "1")
        served = serve_backend(tmp_path / "data")
    log_file = tmp_path / "wandb" / "debug-internal.log"
    trainer: list[subprocess.Popen[bytes]] = []

    def hold_until_refused() -> bytes:
        """Send a body whose end comes once the SDK was refused."""
        trainer.append(
            subprocess.Popen(
                [sys.executable, "-c", RUN],
                cwd=tmp_path,
                env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **served.environment},
            )
        )
        deadline = time.monotonic() + 25
        while not (log_file.exists() and '"status":429' in log_file.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return b' "query": "{ viewer { id } }"}'

    body = (part() if callable(part) else part for part in (b"{", hold_until_refused))
    reply = requests.post(f"{served.url}/graphql", body, auth=("api", served.key), timeout=60)
    assert reply.status_code == 200
    assert trainer[0].wait(60) == 0
    question = '{ project(name: "busy") { runs { edges { node { historyLineCount state }}}}}'
    (run,) = Client.of(served, "busy").ask(question)["project"]["runs"]["edges"]
    assert run["node"] == {"historyLineCount": 20, "state": "finished"}
    served.end()
