"""The proxy of the fault harness: each fault does what its name says, the rest passes unchanged."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests  # noqa: TID251 - a test is a client of its own

from tests.conftest import ServedBackend
from tests.faults.proxy import Fault, FaultProxy

pytestmark = pytest.mark.full

VIEWER = {"query": "query Viewer { viewer { id username } }"}
PLAIN_RUN = """
import wandb
with wandb.init(project="through-proxy") as run:
    for step in range(4):
        run.log({"loss": step}, step=step)
    print("hello from the run")
    print(run.id)
"""


@pytest.fixture
def proxy(backend: ServedBackend) -> Iterator[FaultProxy]:
    """Serve a proxy without faults in front of the session's backend."""
    with FaultProxy(backend.url, seed=1) as served:
        yield served


def ask(proxy: FaultProxy, backend: ServedBackend, timeout: float = 20.0) -> requests.Response:
    return requests.post(
        f"{proxy.url}/graphql", json=VIEWER, auth=("api", backend.key), timeout=timeout
    )


def test_the_proxy_passes_what_no_rule_touches(proxy: FaultProxy, backend: ServedBackend) -> None:
    with requests.Session() as session:  # keep-alive: all three on one connection
        session.auth = ("api", backend.key)
        for _ in range(2):
            reply = session.post(f"{proxy.url}/graphql", json=VIEWER, timeout=20)
            assert reply.json()["data"]["viewer"]["username"] == "tester"
        packed = gzip.compress(json.dumps(VIEWER).encode())
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        reply = session.post(f"{proxy.url}/graphql", data=packed, headers=headers, timeout=20)
    assert reply.json()["data"]["viewer"]["username"] == "tester"
    refused = requests.post(f"{proxy.url}/graphql", json=VIEWER, timeout=20)
    assert refused.status_code == 401
    assert [(p.operation, p.status, p.fault) for p in proxy.journal] == [
        ("Viewer", 200, None),
        ("Viewer", 200, None),
        ("", 200, None),  # compressed: the proxy does not look inside
        ("Viewer", 401, None),
    ]


@pytest.mark.slow
def test_a_run_of_the_stock_sdk_passes_unchanged(
    proxy: FaultProxy, backend: ServedBackend, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLAIN_RUN],
        cwd=tmp_path,
        env={**os.environ, **backend.environment, "WANDB_BASE_URL": proxy.url},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    name = done.stdout.split()[-1]
    question = """query Run($project: String!, $name: String!) { project(name: $project) {
      run(name: $name) { state exitcode history(samples: 100)
                         files { edges { node { name sizeBytes directUrl } } } } } }"""
    variables = {"project": "through-proxy", "name": name}
    reply = requests.post(
        f"{proxy.url}/graphql",
        json={"query": question, "variables": variables},
        auth=("api", backend.key),
        timeout=20,
    )
    run = reply.json()["data"]["project"]["run"]
    assert (run["state"], run["exitcode"]) == ("finished", 0)
    assert [json.loads(line)["loss"] for line in run["history"]] == [0, 1, 2, 3]
    files = {edge["node"]["name"]: edge["node"] for edge in run["files"]["edges"]}
    address = files["wandb-metadata.json"]["directUrl"]
    assert address.startswith(proxy.url), "uploads and downloads must lead through the proxy"
    metadata = requests.get(address, auth=("api", backend.key), timeout=20)
    assert len(metadata.content) == files["wandb-metadata.json"]["sizeBytes"] > 0
    assert proxy.passages("^upload ")
    assert all(passage.status == 200 for passage in proxy.passages("^(upload|file_stream) "))


@pytest.mark.parametrize("status", [401, 404, 409, 429, 500, 503])
def test_a_status_is_answered_without_asking_the_backend(
    proxy: FaultProxy, backend: ServedBackend, status: int
) -> None:
    proxy.set_faults(Fault("status", "^Viewer ", status=status, retry_after_seconds=7, count=1))
    reply = ask(proxy, backend)
    assert (reply.status_code, reply.headers["Retry-After"]) == (status, "7")
    assert "a fault of the test" in reply.json()["errors"][0]["message"]
    assert ask(proxy, backend).status_code == 200, "once means once"
    assert [passage.fault for passage in proxy.journal] == ["status", None]


@pytest.mark.parametrize("kind", ["refuse", "lose_reply", "cut"])
def test_a_broken_connection(proxy: FaultProxy, backend: ServedBackend, kind: str) -> None:
    """Whether the backend acted shows in what it holds afterwards."""
    project = f"broken-{kind}"
    made = f'upsertBucket(input: {{modelName: "{project}", name: "one"}}) {{ inserted }}'
    body = {"query": f"mutation UpsertBucket {{ {made} }}"}
    proxy.set_faults(Fault(kind, "UpsertBucket", count=1))  # type: ignore[arg-type]
    with pytest.raises(requests.RequestException):
        requests.post(f"{proxy.url}/graphql", json=body, auth=("api", backend.key), timeout=20)
    found = requests.post(
        f"{backend.url}/graphql",
        json={"query": f'{{ project(name: "{project}") {{ run(name: "one") {{ name }} }} }}'},
        auth=("api", backend.key),
        timeout=20,
    ).json()["data"]
    acted = bool(found["project"] and found["project"]["run"])
    assert acted == (kind != "refuse")
    assert [(p.operation, p.status, p.fault) for p in proxy.journal] == [
        ("UpsertBucket", None, kind)
    ]


def test_a_delay_and_what_it_does_not_match(proxy: FaultProxy, backend: ServedBackend) -> None:
    proxy.set_faults(Fault("delay", "^Viewer ", delay_seconds=0.4))
    began = time.monotonic()
    assert ask(proxy, backend).status_code == 200
    assert time.monotonic() - began >= 0.4
    with pytest.raises(requests.Timeout):
        ask(proxy, backend, timeout=0.1)
    began = time.monotonic()
    assert requests.get(f"{proxy.url}/healthz", timeout=20).text == "ok"
    assert time.monotonic() - began < 0.4


def test_an_outage_refuses_and_ends_on_the_same_port(
    proxy: FaultProxy, backend: ServedBackend
) -> None:
    address = proxy.url
    with requests.Session() as session:
        session.get(f"{address}/healthz", timeout=20)
        with proxy.outage(), pytest.raises(requests.ConnectionError):
            session.get(f"{address}/healthz", timeout=20)
        assert proxy.url == address
        assert ask(proxy, backend).status_code == 200


def test_chance_comes_from_the_seed(backend: ServedBackend) -> None:
    def outcomes(seed: int) -> list[int]:
        half = Fault("status", "healthz", probability=0.5)
        with FaultProxy(backend.url, half, seed=seed) as proxy:
            return [requests.get(f"{proxy.url}/healthz", timeout=20).status_code for _ in range(12)]

    assert outcomes(3) == outcomes(3)
    assert set(outcomes(3)) == {200, 503}
    assert outcomes(3) != outcomes(4)
