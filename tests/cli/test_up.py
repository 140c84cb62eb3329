"""`up` from a sweep file to a ranking, with the real agent and the real backend."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import TRAINER, Project
from tests.conftest import ServedBackend


def results(project: Project, *words: str, **environment: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(
        project.run("results", *words, "-o", "json", **environment).stdout
    )
    return found


SECTIONS = """
replicas: 1
kubernetes: {image: "registry.example/team/trainer:1", max_time: 12h}
image: {repository: registry.example/team/trainer}
backend: {size: 1Gi}
data: {path: /data, folder: held}
"""
# Ends the trainer where the data is not.
READ_DATA = "open(os.environ['DEPLOYER_DATA_DIR'] + '/labels.csv').close()\n"
OPENS = """
import os, sys

def note(event, arguments):
    if event == "open" and str(arguments[0]) == os.environ["COUNTED"]:
        with open(os.environ["OPENS"], "a") as file:
            print("/".join(sys.argv[0].split("/")[-2:]), file=file)

sys.addaudithook(note)
"""


@contextmanager
def counting_opens(
    counted: Path, folder: Path
) -> Iterator[tuple[dict[str, str], Callable[[], list[str]]]]:
    """Give the environment in which every Python process notes that it opens a file."""
    hooks, log = folder / "hooks", folder / "opens"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(OPENS)
    log.touch()
    named = {"PYTHONPATH": str(hooks), "COUNTED": str(counted), "OPENS": str(log)}
    yield named, lambda: log.read_text().splitlines()


def test_two_runs_to_the_end(project: Project, tmp_path: Path) -> None:
    """The whole job once on the embedded backend: `make check` runs this.

    A closed network's proxy, which cannot reach this machine's own addresses, is never asked.
    deployer.yaml is opened once, by whichever process.
    """
    project.write_grid(lrs="[2.0]")
    project.write("train.py", TRAINER + READ_DATA)
    (project.folder / "held").mkdir()
    project.write("held/labels.csv", "1")
    proxies = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    file = project.folder / "deployer.yaml"
    project.write("deployer.yaml", SECTIONS)
    with counting_opens(file, tmp_path) as (environment, list_opens):
        told = {**proxies, **environment}
        done = project.run_afresh("up", "grid.yaml", "--replicas", "2", "--plain", **told)
        assert list_opens() == ["deployer/__main__.py"]
    assert "using embedded W&B backend http://127.0.0.1:" in done.stderr
    assert "2/2 configurations finished, 0 duplicates, 0 lost" in done.stdout
    assert "loss=0.666667 with" in done.stdout
    assert "results page: http://127.0.0.1:" in done.stdout
    table = [line.split() for line in done.stdout.splitlines() if " finished " in line]
    assert [(row[0], row[3]) for row in table] == [("1", "0.666667"), ("2", "1.33333")]

    found = results(project)
    assert found["coverage"]["sentence"] == "2/2 configurations finished, 0 duplicates, 0 lost"  # type: ignore[index]
    rows = list(csv.DictReader(io.StringIO(project.run("results", "-o", "csv").stdout)))
    assert [(r["rank"], r["state"], r["layers"]) for r in rows] == [
        ("1", "finished", "1"),
        ("2", "finished", "2"),
    ]

    path = str(found["sweep"])
    [link] = re.findall(r"results page: (\S+) \(signs you in, once\)", done.stderr)
    entity_project, _, sweep_id = path.rpartition("/")
    assert f"/login?next=/{entity_project}/sweeps/{sweep_id}#link=" in link
    opened = project.run("backend", "open").stdout.strip()
    assert opened.partition("/login")[0] == link.partition("/login")[0]
    assert "/login?next=/#link=" in opened
    assert "2 agents ended" not in project.run("down").stderr
    assert json.loads(project.run("agents", "list", "-o", "json").stdout) == []
    assert f"nothing of {path} was found on this machine" in project.run("down").stderr
    assert results(project)["sweep"] == path
    *_, error, hint = project.run("up", "grid.yaml", code=2).stderr.splitlines()
    assert error.startswith(f"error: grid.yaml: its sweep {path} is FINISHED: 2/2 configurations")
    another = "or create another sweep: deployer up grid.yaml --new"
    assert hint == f"hint: deployer results {path}; {another}"
    best = found["best"]["run_id"]  # type: ignore[index]
    project.run("results", "get", "--best", "--to", "models")
    [model] = (project.folder / "models").rglob("model")
    assert model.read_text() == best


@pytest.mark.slow
def test_up_again_continues_and_new_makes_another(project: Project) -> None:
    project.write_grid(lrs="[1.0]")
    path = project.run("sweep", "create", "grid.yaml").stdout.strip()
    hold = project.write("hold", "")
    first = json.loads(project.run("up", "grid.yaml", "--detach", "-o", "json").stdout)
    assert first["sweep"] == path
    again = json.loads(project.run("up", "grid.yaml", "--detach", "-o", "json").stdout)
    assert (again["sweep"], len(again["agents"])) == (path, 1)
    up = project.start("up", "grid.yaml", "--plain")
    assert up.stderr is not None
    assert any("0/2 finished" in line for line in up.stderr)
    up.send_signal(signal.SIGINT)
    assert list_live(up.communicate()[1]) == [f"1 agent of {path} still runs"]
    assert up.returncode == 130
    made = project.run("up", "grid.yaml", "--new", "--detach", "-o", "json")
    other = json.loads(made.stdout)
    assert other["sweep"] != path
    assert list_live(made.stderr) == [f"1 agent of {path}, another sweep of grid.yaml, still runs"]

    project.write_grid(lrs="[3.0]")
    more = project.run("agents", "up", "-o", "json").stderr
    assert f"grid.yaml was edited after {other['sweep']} was created" in more
    assert list_live(more) == list_live(made.stderr)
    done = project.run("up", "grid.yaml", "--detach", "-o", "json")
    edited = json.loads(done.stdout)
    assert edited["sweep"] not in (path, other["sweep"])
    older = {f"1 agent of {one}" for one in (path, other["sweep"])}
    assert {*list_live(done.stderr)} == {
        f"{one}, another sweep of grid.yaml, still runs" for one in older
    }
    project.write("grid.yaml", "method: [")
    refused = project.run("up", "grid.yaml", code=2).stderr
    assert {*list_live(refused)} == {
        f"{one} still runs" for one in (*older, f"1 agent of {edited['sweep']}")
    }
    ended = project.run("down", "-o", "json")
    assert json.loads(ended.stdout)["sweep"] == edited["sweep"]
    assert {*list_live(ended.stderr)} == {
        f"{one}, another sweep of this folder, still runs" for one in older
    }
    assert list_live(project.run("down", path, code=0).stderr) == []

    hold.unlink()
    project.run("agents", "up", path)
    done = project.run("watch", path, "--plain")
    assert "2/2 configurations finished, 0 duplicates, 0 lost" in done.stdout
    listed = json.loads(project.run("sweep", "list", "--project", "proj", "-o", "json").stdout)
    assert [info["sweep"] for info in listed] == [edited["sweep"], other["sweep"], path]


def list_live(err: str) -> list[str]:
    """Return what is said of sweeps with live agents, if each names the command that ends them."""
    found = re.findall(r"^(\d+ agents? of (\S+?),?( .*)?): deployer down (\S+)$", err, re.MULTILINE)
    assert all(path == named for _, path, _, named in found)
    return [said for said, *_ in found]


@pytest.mark.slow
def test_a_sweep_of_wandb_sweep_with_agents_of_ours(
    project: Project, plain_backend: ServedBackend
) -> None:
    """Made elsewhere, on a server that has nothing beyond W&B's own, named in every way."""
    environment = plain_backend.environment
    project.write_grid(lrs="[2.0]")
    made = subprocess.run(
        [sys.executable, "-m", "wandb", "sweep", "grid.yaml"],
        cwd=project.folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    path = made.stderr.split("wandb agent ")[1].split()[0]
    short = path.rsplit("/", 1)[1]
    assert "state: " in project.run("sweep", "show", path, **environment).stdout
    project.run("agents", "up", path, "--replicas", "2", **environment)
    project.run(
        "watch", f"{plain_backend.url}/{path.replace(short, 'sweeps/' + short)}", **environment
    )
    found = results(project, short, "--wandb", plain_backend.url, **environment)
    assert found["sweep"] == path
    assert found["coverage"]["finished"] == 2  # type: ignore[index]
    logs = project.run("agents", "logs", short).stdout.splitlines()
    assert len({line.split(" | ")[0] for line in logs}) == 2


@pytest.mark.slow
def test_scaling_and_draining(project: Project) -> None:
    project.write_grid(lrs="[1.0]")
    path = project.run("sweep", "create", "grid.yaml").stdout.strip()
    project.run("sweep", "pause")
    names = [
        agent["name"]
        for agent in json.loads(project.run("agents", "up", "--replicas", "3", "-o", "json").stdout)
    ]
    assert len(names) == 3
    assert "draining" in project.run("agents", "scale", "2").stderr
    living = [a for a in list_agents(project) if a["state"] not in ("draining", "ended")]
    assert len(living) == 2
    project.run("agents", "drain", "--agent", str(living[0]["name"]))
    project.run("agents", "scale", "2")
    project.run("sweep", "resume")
    assert "2/2 configurations finished" in project.run("watch", "--plain").stdout
    assert f"{path}: " in project.run("agents", "down").stderr


def list_agents(project: Project) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(project.run("agents", "list", "-o", "json").stdout)
    return found


@pytest.mark.slow
def test_the_environment_of_the_embedded_backend(project: Project) -> None:
    lines = project.run("backend", "env").stdout.splitlines()
    assert [line.split("=")[0] for line in lines] == [
        "export WANDB_BASE_URL",
        "export WANDB_API_KEY",
        "export WANDB_ENTITY",
    ]
    status = json.loads(project.run("backend", "status", "-o", "json").stdout)
    assert status["running"] is True
    assert lines[0] == f"export WANDB_BASE_URL={status['url']}"
    assert lines[2] == f"export WANDB_ENTITY={status['entity']}"
    key = "n" * 40
    added = project.run(
        *("backend", "user", "add", "ann", "--key-stdin", "-o", "json"), text=key + "\n"
    )
    told = json.loads(added.stdout)
    assert {**told, "id": ""} == {"user": "ann", "state": "added", "id": ""}
    assert key not in added.stdout
    listed = project.run("sweep", "list", "--wandb", status["url"], "-o", "json", WANDB_API_KEY=key)
    assert json.loads(listed.stdout) == []
    words = ("sweep", "list", "--wandb", status["url"])
    listed = project.run(*words, "--project", "none", WANDB_API_KEY=key)
    assert (listed.stdout, listed.stderr.splitlines()) == (
        "",
        ["no sweeps of ann in project none", "hint: deployer up FILE"],
    )
    project.run("backend", "down")
    assert json.loads(project.run("backend", "status", "-o", "json").stdout)["running"] is False


@pytest.mark.slow
def test_a_backend_in_the_foreground_serves_a_second_user(project: Project, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    process = project.start("backend", "serve", "--data", data)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    with urllib.request.urlopen(f"{url}/healthz") as reply:
        assert reply.status == 200
    key = "s" * 44
    project.run("backend", "user", "add", "sue", "--key-stdin", "--data", data, text=key + "\n")
    project.write_grid()
    environment = {"WANDB_BASE_URL": url, "WANDB_API_KEY": key}
    path = project.run("sweep", "create", "grid.yaml", **environment).stdout.strip()
    assert path.startswith("sue/proj/")
    refused = project.run("sweep", "show", path, WANDB_BASE_URL=url, WANDB_API_KEY="x" * 40, code=1)
    assert "the key came from WANDB_API_KEY" in refused.stderr
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0  # told to end, it closes properly
    process.communicate()


def test_a_team_of_wandbs_is_the_only_user_of_the_embedded_backend(project: Project) -> None:
    """A file of W&B's stays as it is; with other users, whose path is meant cannot be told."""
    project.write_grid(text="entity: my-team\n")
    made = project.run("sweep", "create", "grid.yaml", "--no-check")
    assert made.stdout.startswith("user/proj/")
    assert "entity my-team is not on this server: the sweep is user's\n" in made.stderr
    project.run("backend", "user", "add", "ann")
    refused = project.run("sweep", "create", "grid.yaml", "--no-check", code=1)
    assert refused.stderr.splitlines()[-2:] == [
        f"error: {made.stderr.split()[4]}: permission denied: entity my-team is not user's",
        "hint: --entity user",
    ]
    project.run("sweep", "create", "grid.yaml", "--no-check", "--entity", "user")
