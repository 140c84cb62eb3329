"""What a report is made of: the same documents as the backend's page, from any server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import requests  # noqa: TID251 - a test is a client of its own

from deployer.page.strict_json import to_strict_json
from deployer.report.collection import collect
from deployer.report.content import build_html
from deployer.sweeps.rerun import get_full_snapshot
from deployer.sweeps.results import build_results
from deployer.watch.run_logs import get_run_tail
from tests.backend.client import Client
from tests.backend.pages_browser import log_in, read
from tests.bench.page import fill_sweep
from tests.browser.sweeps import NASTY, make_sweep
from tests.conftest import ServedBackend, serve_backend
from tests.faults.proxy import FaultProxy
from tests.report.served import NOW, open_server, path_of

# What depends on the moment, and what only its owner may do.
MOMENTARY = ("ends_at", "actions")


@pytest.fixture
def client(backend: ServedBackend, request: pytest.FixtureRequest) -> Client:
    """A client in a project of the test's own."""
    return Client.of(backend, re.sub(r"\W+", "-", request.node.name))


def _as_sent(document: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_strict_json(document), parse_float=_whole_times)
    return {name: value for name, value in found.items() if name not in MOMENTARY}


def _whole_times(text: str) -> float:
    """Return a number; of a moment whole seconds, which is all that the public API tells."""
    value = float(text)
    return value if value < 1e9 else float(int(value))


def test_the_documents_are_those_of_the_backends_page(client: Client) -> None:
    sweep = make_sweep(client, 7)
    session = requests.Session()
    log_in(session, client.url, client.key)
    found = collect(open_server(client), path_of(client, sweep), NOW)
    page = _as_sent(read(session, client, f"/sweeps/{sweep}"))
    for one in (page, report := _as_sent(found.document)):
        for agent in one["agents"]:
            agent.pop("heartbeat_at")
    assert report == page
    asked = f"/curves?metric=loss&runs={','.join(page['chosen'])}"
    assert list(found.curves) == read(session, client, asked)["curves"]
    importance = read(session, client, f"/sweeps/{sweep}/importance")
    assert json.loads(to_strict_json(found.importance)) == importance


def test_a_server_without_our_extensions_tells_the_same_but_for_attempts(
    client: Client, plain_backend: ServedBackend
) -> None:
    plain = Client.of(plain_backend, client.project)
    sweep = make_sweep(plain, 8)
    found = collect(open_server(plain), path_of(plain, sweep), NOW)
    assert found.results.coverage.finished == 7
    assert len(found.curves) == 9 - 1  # the one that runs has logged nothing
    assert [agent["host"] for agent in found.document["agents"]] == ["node-1"]


def test_secrets_are_in_no_report_and_still_tell_configurations_apart(client: Client) -> None:
    secret = {"values": ["hunter2-a", "hunter2-b", "hunter2-c"]}
    sweep = make_sweep(client, 2, method="grid", parameters={"api_key": secret, "lr": {"value": 1}})
    found = collect(open_server(client), path_of(client, sweep), NOW)
    page = build_html(found)
    assert "hunter2" not in page
    assert "REDACTED" in page
    assert found.results.coverage.finished == 2


def test_a_failed_run_has_its_last_words(client: Client) -> None:
    sweep = client.create_sweep({"method": "grid", "parameters": {"lr": {"values": [1, 2]}}})
    agent = client.create_agent(sweep)
    said = "ValueError: no such file: //me:pw@host/*x*"
    for _ in range(3):  # the first is tried twice
        [run] = client.heartbeat(agent)
        words, code = ([said, ""], 2) if run["args"]["lr"]["value"] == 1 else (["done"], 0)
        client.init_run(run["run_id"], displayName="my *run*", config=json.dumps(run["args"]))
        client.stream(run["run_id"], files={"output.log": {"offset": 0, "content": words}})
        client.finish(run["run_id"], exit_code=code)
    found = collect(open_server(client), path_of(client, sweep), NOW)
    [said] = found.last_words.values()
    assert said == "ValueError: no such file: //host/*x*"
    assert f'"said":"{said}"' in build_html(found)


FOOTER = ["wandb: ", *["wandb: View run at https://w"] * 5, ""]


@pytest.mark.parametrize(
    "said",
    [
        "ValueError: bad api_key: hunter22",
        "Incorrect API key provided: hunter22",
        "KeyError: {'api_key': 'hunter22'}",
        "usage: train.py --password hunter22",
    ],
)
def test_last_words_tell_no_secret(client: Client, said: str) -> None:
    sweep = client.create_sweep(
        {"method": "grid", "parameters": {"api_key": {"values": ["hunter22"]}}}
    )
    agent = client.create_agent(sweep)
    for _ in range(2):  # it is tried twice
        [run] = client.heartbeat(agent)
        client.init_run(run["run_id"], config=json.dumps(run["args"]))
        client.stream(
            run["run_id"], files={"output.log": {"offset": 0, "content": [said, *FOOTER]}}
        )
        client.finish(run["run_id"], exit_code=2)
    server, path = open_server(client), path_of(client, sweep)
    found = collect(server, path, NOW)
    [words] = found.last_words.values()
    assert words == said.replace("hunter22", "REDACTED")
    snapshot = get_full_snapshot(server, path)
    [failed] = build_results(snapshot.sweep, snapshot.runs).failures
    assert get_run_tail(server, None, path, failed, 3)[-2:] == (words, "")


def test_names_cannot_leave_their_place(client: Client) -> None:
    sweep = make_sweep(client, 2, name=NASTY + "</script>", parameters={"a|b": {"value": NASTY}})
    found = collect(open_server(client), path_of(client, sweep), NOW)
    page = build_html(found)
    assert NASTY not in page
    assert page.count("</script>") == 3  # of the documents, of ECharts, of the page's scripts


def test_a_thousand_runs_take_few_requests(tmp_path: Path) -> None:
    made = fill_sweep(tmp_path / "data", 1000)
    served = serve_backend(tmp_path / "data", "plain")
    try:
        with FaultProxy(served.url) as proxy:
            client = Client(served.url, served.key, "me", "p")
            found = collect(open_server(client, proxy.url), path_of(client, made.name), NOW)
            assert len(found.results.rows) == 1000
            assert len(proxy.passages()) <= 15
    finally:
        served.end()
