"""The results pages over HTTP: what their scripts are given of sweeps and runs."""

from __future__ import annotations

import json
import math

import requests  # noqa: TID251 - a test is a client of its own

from tests.backend.client import Client, grid
from tests.backend.pages_browser import list_rows, page, read, read_curves


def test_a_sweep_is_ranked_with_its_best_and_its_curves(
    client: Client, browser: requests.Session
) -> None:
    config = grid(lr=[0.1, 0.2, 0.3])
    config["parameters"]["epochs"] = {"value": 3}
    sweep = client.create_sweep(config)
    agent = client.create_agent(sweep, "node-7")
    losses = {0.1: [3.0, 2.0], 0.2: [3.0, 1.0], 0.3: [3.0, 0.5]}
    while (run := client.heartbeat(agent)[0])["type"] != "exit":  # a failed one may come again
        lr = run["args"]["lr"]["value"]
        client.init_run(run["run_id"], config=json.dumps(run["args"]))
        client.log(run["run_id"], [{"_step": n, "loss": loss} for n, loss in enumerate(losses[lr])])
        client.finish(run["run_id"], exit_code=int(lr == 0.3))
    data = read(browser, client, f"/sweeps/{sweep}")
    rows = [
        (r["rank"], r["state"], r["value"], r["parameters"], r["agent"]) for r in list_rows(data)
    ]
    assert data["columns"] == ["lr"]
    assert data["fixed"] == {"epochs": 3}
    assert rows == [
        (1, "finished", 1.0, [0.2], "node-7"),
        (2, "finished", 2.0, [0.1], "node-7"),
        (None, "failed", 0.5, [0.3], "node-7"),
    ]
    assert data["progress"]["finished"] == 2
    assert data["progress"]["failed"] == 1
    assert data["best"] == {"run": f"{sweep}-1", "title": f"{sweep}-1", "value": 1.0}
    assert data["command"] == "python train.py --epochs=3 --lr=0.2"
    curves = read_curves(browser, client, data["chosen"])
    assert curves[f"{sweep}-1"] == ([0, 1], [3.0, 1.0])
    assert len(curves) == 3


def test_a_curve_grows_while_its_run_goes_on(client: Client, browser: requests.Session) -> None:
    sweep = client.create_sweep(grid(lr=[0.1]))
    run = client.heartbeat(client.create_agent(sweep))[0]["run_id"]
    client.init_run(run)
    client.log(run, [{"_step": 0, "loss": 3.0}])
    assert read_curves(browser, client, [run]) == {run: ([0], [3.0])}
    client.log(run, [{"_step": 1, "loss": 2.0}], offset=1)
    assert read_curves(browser, client, [run]) == {run: ([0, 1], [3.0, 2.0])}
    assert read(browser, client, f"/sweeps/{sweep}")["active"] is True


def test_users_values_arrive_as_data_and_never_as_markup(
    client: Client, browser: requests.Session
) -> None:
    nasty = "</script><script>alert(1)</script>"
    values = [nasty, 2**70, None, [1, {"a": nasty}]]
    sweep = client.create_sweep({**grid(**{nasty: values}), "name": nasty})
    agent = client.create_agent(sweep)
    for value in (math.nan, math.inf, -math.inf, None):
        run = client.heartbeat(agent)[0]
        client.init_run(run["run_id"], config=json.dumps(run["args"]))
        client.log(run["run_id"], [{"_step": 0, "loss": 1.0}, {"loss": value, "text": "\ud800"}])
        client.finish(run["run_id"])
    data = read(browser, client, f"/sweeps/{sweep}")
    assert data["title"] == nasty
    assert data["columns"] == [nasty]
    shown = [row["parameters"][0] for row in sorted(list_rows(data), key=lambda row: row["id"])]
    assert shown == [nasty, str(2**70), None, [1, {"a": nasty}]]
    assert {row["value"] for row in list_rows(data)} == {"NaN", "Infinity", "-Infinity", None}
    assert data["best"] is None
    curves = read_curves(browser, client, data["chosen"])
    assert {values[0] for _, values in curves.values()} == {1.0}
    shell = browser.get(page(client, f"/sweeps/{sweep}"), timeout=30)
    assert nasty not in shell.text


def test_a_sweep_without_a_metric_and_an_empty_one(
    client: Client, browser: requests.Session
) -> None:
    config = grid(x=[1])
    del config["metric"]
    sweep = client.create_sweep(config)
    data = read(browser, client, f"/sweeps/{sweep}")
    assert (data["metric"], data["best"], data["runs"], data["chosen"]) == (None, None, [], [])
    client.work_once(client.create_agent(sweep), loss=1.0)
    assert len(read(browser, client, f"/sweeps/{sweep}")["runs"]) == 1


def test_unchanged_data_is_not_sent_twice(client: Client, browser: requests.Session) -> None:
    sweep = client.create_sweep(grid(x=[1]))
    address = f"{client.url}/api/pages/{client.entity}/{client.project}/sweeps/{sweep}"
    tag = browser.get(address, timeout=30).headers["etag"]
    again = browser.get(address, headers={"If-None-Match": tag}, timeout=30)
    assert (again.status_code, again.content) == (304, b"")
    client.work_once(client.create_agent(sweep), loss=1.0)
    later = browser.get(address, headers={"If-None-Match": tag}, timeout=30)
    assert later.status_code == 200


def test_a_run_shows_its_curves_console_and_files(
    client: Client, browser: requests.Session
) -> None:
    client.create_sweep(grid(x=[1]))
    config = {"lr": {"value": 0.1}, "net": {"value": {"depth": 2}}, "_wandb": {"value": {}}}
    client.init_run("alone", config=json.dumps(config))
    client.log("alone", [{"_step": n, "loss": n, "val": {"acc": 0.5}} for n in range(3)])
    lines = [json.dumps({"ts": "t", "content": "one"}), "two"]
    client.stream("alone", files={"output.log": {"offset": 0, "content": lines}})
    client.upload("alone", "a/x.html", b"<script>alert(1)</script>")
    data = read(browser, client, "/runs/alone")
    assert data["config"] == {"lr": 0.1, "net.depth": 2}
    assert data["summary"] == {"loss": 2, "val.acc": 0.5}
    assert [curve["metric"] for curve in data["curves"]] == ["loss", "val.acc"]
    assert data["console"] == ["one", "two"]
    assert data["files"] == [{"name": "a/x.html", "size_bytes": 25}]
    address = f"{client.url}/api/pages/{client.entity}/{client.project}/runs/alone/files/a/x.html"
    file = browser.get(address, timeout=30)
    assert file.content == b"<script>alert(1)</script>"
    assert file.headers["content-type"] == "application/octet-stream"
    assert file.headers["content-disposition"].startswith("attachment")


def test_home_and_project_list_sweeps_and_runs(client: Client, browser: requests.Session) -> None:
    sweep = client.create_sweep(grid(x=[1]))
    client.work_once(client.create_agent(sweep), loss=1.0)
    home = browser.get(f"{client.url}/api/pages/", timeout=30).json()
    mine = next(p for p in home["projects"] if p["name"] == client.project)
    assert (mine["sweep_count"], mine["run_count"]) == (1, 1)
    assert mine["sweeps"][0]["best"]["value"] == 1.0
    project = read(browser, client)
    assert [row["id"] for row in project["sweeps"]] == [sweep]
    assert [(row["id"], row["sweep"]) for row in project["runs"]] == [(f"{sweep}-0", sweep)]
