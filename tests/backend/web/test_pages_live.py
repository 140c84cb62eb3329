"""The pages while a sweep goes on: changes as events, control, importance, comparing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests  # noqa: TID251 - a test is a client of its own

from deployer.backend.request import Refusal
from deployer.backend.web.routes import list_changes
from tests.backend.bench import Bench
from tests.backend.client import Client, grid
from tests.backend.pages_browser import log_in, read
from tests.conftest import serve_backend


def listen(browser: requests.Session, client: Client, place: str) -> Iterator[str]:
    """Yield what changes, as the browser's EventSource hears it."""
    address = f"{client.url}/api/events/{client.entity}/{client.project}{place}"
    with browser.get(address, stream=True, timeout=30) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        for line in reply.iter_lines(chunk_size=1, decode_unicode=True):
            if line.startswith("data:"):
                yield line


def test_a_listener_hears_of_each_change_until_its_log_in_ends(
    client: Client, browser: requests.Session
) -> None:
    sweep = client.create_sweep(grid(x=[1, 2]))
    agent = client.create_agent(sweep)
    heard = listen(browser, client, f"/sweeps/{sweep}")
    first = next(heard)
    client.work_once(agent, loss=1.0)
    assert next(heard) != first
    requests.post(f"{client.url}/logout", cookies=browser.cookies, timeout=30)
    assert len(list(heard)) <= 1  # what was under way; then it ends


@pytest.mark.parametrize("place", ["", "/runs/r", "/sweeps/none"])
def test_listening_needs_a_log_in_and_a_page(client: Client, place: str) -> None:
    client.init_run("r")
    address = f"{client.url}/api/events/{client.entity}/{client.project}{place}"
    assert requests.get(address, timeout=30).status_code == 401
    session = requests.Session()
    log_in(session, client.url, client.key)
    with session.get(address, stream=True, timeout=30) as reply:
        assert reply.status_code == (404 if "none" in place else 200)


def test_listeners_end_with_the_server(tmp_path: Path) -> None:
    served = serve_backend(tmp_path / "data")
    client = Client.of(served, "p")
    sweep = client.create_sweep(grid(x=[1]))
    session = requests.Session()
    log_in(session, served.url, served.key)
    heard = [listen(session, client, f"/sweeps/{sweep}") for _ in range(3)]
    for one in heard:
        next(one)
    served.process.terminate()
    assert served.process.wait(5) == 0
    for one in heard:
        assert list(one) == []


def test_a_listener_holds_no_thread_and_ends_when_it_is_refused(bench: Bench) -> None:
    seen = iter([1, 1, 2])

    async def look() -> int:
        for value in seen:
            return value
        raise Refusal(401, "log in first")

    async def hear() -> list[bytes]:
        return [block async for block in list_changes(bench.backend, look)]

    told = [block for block in asyncio.run(hear()) if block.startswith(b"data:")]
    assert len(told) == 2


def set_state(
    session: requests.Session, client: Client, sweep: str, action: str, **headers: str
) -> requests.Response:
    address = f"{client.url}/api/pages/{client.entity}/{client.project}/sweeps/{sweep}/state"
    asked = {"Origin": client.url, "Content-Type": "application/json", **headers}
    body = json.dumps({"action": action})
    return session.post(address, data=body, headers=asked, timeout=30)


def test_a_sweep_is_paused_resumed_and_ended(client: Client, browser: requests.Session) -> None:
    sweep = client.create_sweep(grid(x=[1, 2]))
    for action, state, left in (
        ("pause", "PAUSED", ["resume", "stop", "cancel"]),
        ("resume", "RUNNING", ["pause", "stop", "cancel"]),
        ("cancel", "CANCELED", []),
    ):
        reply = set_state(browser, client, sweep, action)
        assert (reply.status_code, reply.json()) == (200, {"state": state})
        assert client.sweep(sweep)["state"] == state
        assert read(browser, client, f"/sweeps/{sweep}")["actions"] == left
    reply = set_state(browser, client, sweep, "resume")
    assert (reply.status_code, f"{sweep} is CANCELED: it cannot resume" in reply.text) == (
        400,
        True,
    )
    assert set_state(browser, client, sweep, "FINISHED").status_code == 400


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": ""},
        {"Origin": "null"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ],
)
def test_no_other_site_controls_a_sweep(
    client: Client, browser: requests.Session, headers: dict[str, str]
) -> None:
    sweep = client.create_sweep(grid(x=[1]))
    assert set_state(browser, client, sweep, "cancel", **headers).status_code in (403, 415)
    assert client.sweep(sweep)["state"] == "PENDING"


def test_nobody_else_controls_a_sweep(client: Client) -> None:
    sweep = client.create_sweep(grid(x=[1]))
    assert set_state(requests.Session(), client, sweep, "cancel").status_code == 401
    assert client.sweep(sweep)["state"] == "PENDING"


def test_runs_are_compared(client: Client, browser: requests.Session) -> None:
    for name, lr in (("a", 0.1), ("b", 0.2)):
        config = {"lr": {"value": lr}, "net": {"value": {"depth": 2}}}
        client.init_run(name, config=json.dumps(config))
        client.log(name, [{"_step": 0, "loss": lr, "text": "x"}])
    data = read(browser, client, "/compare?runs=a,b")
    assert [run["id"] for run in data["runs"]] == ["a", "b"]
    assert data["config"] == [
        {"name": "lr", "values": [0.1, 0.2], "same": False},
        {"name": "net.depth", "values": [2, 2], "same": True},
    ]
    assert data["metrics"] == ["loss"]
    data = read(browser, client, "/compare?runs=gone,b")
    assert ([run["id"] for run in data["runs"]], data["missing"]) == (["b"], ["gone"])


def test_importance_of_a_metric_that_does_not_vary(
    client: Client, browser: requests.Session
) -> None:
    sweep = client.create_sweep(grid(x=[1, 2, 3]))
    agent = client.create_agent(sweep)
    while (run := client.heartbeat(agent)[0])["type"] != "exit":
        client.init_run(run["run_id"], config=json.dumps(run["args"]))
        client.log(run["run_id"], [{"loss": 1.0}])
        client.finish(run["run_id"])
    data = read(browser, client, f"/sweeps/{sweep}/importance")
    assert data["sentence"] == "loss does not depend on 1 parameter in 3 runs"
    assert data["parameters"] == [{"name": "x", "importance": 0.0, "correlation": None}]


def test_a_runs_machine_system_and_images(client: Client, browser: requests.Session) -> None:
    own = {"e": {"w": {"gpu": "H100", "gpu_count": 2, "git": {"commit": "abc"}}}}
    client.init_run("r", config=json.dumps({"_wandb": {"value": own}}))
    image = {"_type": "image-file", "path": "media/images/a.png"}
    client.log("r", [{"_step": 3, "a": image, "lost": {**image, "path": "media/gone.png"}}])
    events = [
        {
            "_runtime": 1.5,
            "system.memory_percent": 9,
            "system.cpu": 5,
            "system.disk": 1,
            "system.gpu.0.gpu": 90,
        }
    ]
    content = {"offset": 0, "content": [json.dumps(row) for row in events]}
    client.stream("r", files={"wandb-events.jsonl": content})
    client.upload("r", "media/images/a.png", b"<script>alert(1)</script>")
    data = read(browser, client, "/runs/r")
    assert data["environment"] == {"gpu": "H100", "gpu_count": 2, "git.commit": "abc"}
    assert [curve["metric"] for curve in data["system"]] == [
        "gpu.0.gpu",
        "cpu",
        "memory_percent",
        "disk",
    ]
    assert data["system"][0]["steps"] == [1.5]
    files = [{"path": image["path"], "caption": ""}]
    frames = [{"step": 3, "files": files}]
    assert data["media"] == [{"name": "a", "kind": "image", "frames": frames}]
    address = (
        f"{client.url}/api/pages/{client.entity}/{client.project}/runs/r/files/{image['path']}"
    )
    shown = browser.get(address, params={"as": "image"}, timeout=30)
    assert (shown.headers["content-type"], shown.headers["x-content-type-options"]) == (
        "image/png",
        "nosniff",
    )
