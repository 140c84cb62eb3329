"""What operators watch: readiness, figures for Prometheus, and a log that machines read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests  # noqa: TID251 - who watches is a client of its own
from prometheus_client.parser import text_string_to_metric_families

from deployer.backend.server.app import build_app
from tests.backend.bench import Bench
from tests.backend.client import Client, grid
from tests.backend.server.test_daemon import ask


def read_figures(text: str) -> dict[str, float]:
    """Return each figure by its name and the values of its labels."""
    return {
        "/".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_reads_what_goes_on(client: Client) -> None:
    before = read_figures(requests.get(f"{client.url}/metrics", timeout=20).text)
    agent = client.create_agent(client.create_sweep(grid(x=[1])))
    client.init_run(client.heartbeat(agent)[0]["run_id"])
    reply = requests.get(f"{client.url}/metrics", timeout=20)
    after = read_figures(reply.text)
    assert "version=" in reply.headers["content-type"]
    runs, agents = "deployer_backend_runs/running", "deployer_backend_agents"
    assert after[runs] == before.get(runs, 0) + 1
    assert after[agents] == before[agents] + 1
    asked = "deployer_backend_request_seconds_count/graphql/2xx"
    assert after[asked] - before.get(asked, 0) == 4
    assert after["deployer_backend_disk_free_bytes"] > 0
    assert after["deployer_backend_database_bytes"] > 0
    assert after["deployer_backend_queue"] == 0
    assert client.project not in reply.text


def test_readiness_names_what_does_not_work(bench: Bench) -> None:
    app = build_app(bench.backend)
    assert ask(app, "GET", "/readyz") == (200, "database: ok\ndisk: ok\nsearch: ok\n")
    bench.backend.store.close()
    status, said = ask(app, "GET", "/readyz")
    assert (status, said.splitlines()[0]) == (503, "database: its writer has stopped")
    bench.backend.store = type(bench.backend.store)(bench.backend.store.path)


@pytest.mark.slow
def test_the_log_is_json_if_asked(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "deployer", "backend", "serve", "--data", str(tmp_path / "d")]
    server = subprocess.Popen(
        [*command, "--log-format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "DEPLOYER_HOME": str(tmp_path)},
    )
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    server.send_signal(signal.SIGTERM)
    _, told = server.communicate(timeout=60)
    lines = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    own = [line for line in lines if line["logger"].startswith("deployer.backend")]
    assert [line["message"] for line in own] == [f"serving {tmp_path / 'd'} at {url}", "stopped"]
    assert {line["level"] for line in lines} == {"info"}
    assert server.returncode == 0
