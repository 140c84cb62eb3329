"""What a waiting `up` does about deaths and failures, and what heal does afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from tests.backend.client import Client as Sdk
from tests.backend.client import grid
from tests.cli.conftest import Project
from tests.conftest import ServedBackend
from tests.project_files import open_local

FAILS_ABOVE_2 = 'command: ["${env}", python, "${program}", "${args}", --fail-above=2]\n'
DEADLINE_SECONDS = 120.0  # a busy machine starts agents slowly
POLL_SECONDS = 0.3


def wait_for(found: Callable[[], Any]) -> Any:
    """Ask until the answer is something."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (answer := found()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(POLL_SECONDS)
    return answer


def kill_with_children(process_id: int) -> None:
    """Kill a supervisor with its agent and its run, as the loss of a machine does."""
    supervisor = psutil.Process(process_id)
    for process in (supervisor, *supervisor.children(recursive=True)):
        process.kill()


def read(project: Project, *words: str, **environment: str) -> Any:
    return json.loads(project.run(*words, "-o", "json", **environment).stdout)


@pytest.mark.slow
def test_up_replaces_a_dead_agent_and_a_dead_backend(project: Project) -> None:
    project.write_grid(lrs="[1.0]")
    hold = project.write("hold", "runs go on when this file is gone")
    path = project.run("sweep", "create", "grid.yaml").stdout.strip()
    up = project.start("up", "grid.yaml", "--replicas", "1", "--plain", "-o", "json")

    def busy() -> Any:
        return [a for a in read(project, "agents", "list", path) if a["run_id"]]

    (agent,) = wait_for(busy)
    kill_with_children(agent["process_id"])
    os.kill(read(project, "backend", "status")["process_id"], signal.SIGKILL)
    hold.unlink()
    out, err = up.communicate(timeout=120)
    assert up.returncode == 0, out + err
    assert f"started again: {agent['name']}" in err
    assert "restarted the embedded backend, which had died" in err
    coverage = json.loads(out)["coverage"]
    assert coverage["sentence"] == "2/2 configurations finished, 0 duplicates, 0 lost, 1 healed"
    (healed,) = [r for r in json.loads(out)["runs"] if len(r["attempts"]) > 1]
    assert [(a["number"], a["agent"]) for a in healed["attempts"]] == [
        (1, agent["name"]),
        (2, agent["name"]),
    ]
    assert [a["cause"] for a in healed["attempts"]] == ["signal", "finished"]
    verified = project.run("results", "--verify").stdout
    assert verified.splitlines()[0] == coverage["sentence"]
    told = "verified 6 rows of 2 finished runs, 0 steps doubled, 0 gaps"
    assert verified.splitlines()[1] == told


@pytest.mark.slow
def test_a_broken_script_stops_the_sweep_and_says_why_once(project: Project) -> None:
    project.write_grid(lrs="[3.0, 4.0, 5.0]", text=FAILS_ABOVE_2)
    done = project.run("up", "grid.yaml", "--plain", "--down-after", code=3)
    assert "deleted everything made for its agents; results stay" in done.stderr
    assert read(project, "agents", "list") == []
    lines = done.stdout.splitlines()
    assert lines.count("stopped: 3 configurations failed before any finished") == 1
    reason = lines.index("stopped: 3 configurations failed before any finished")
    assert "with exit code 7 (lr=3, layers=1)" in lines[reason + 1]
    assert "  | no learning rate for mortals" in lines[reason + 2 : reason + 12]
    failures = read(project, "results")["failures"]
    assert {f["exit_code"] for f in failures} == {7}
    assert all("no learning rate for mortals" in f["last_lines"] for f in failures)
    assert "stopped, since 3 configurations failed before any finished: 0/6" in done.stderr

    path = read(project, "results")["sweep"]
    *_, error, hint = project.run("up", "grid.yaml", "--plain", code=2).stderr.splitlines()
    stopped = f"its sweep {path} was stopped, since 3 configurations failed before any finished"
    assert error.startswith(f"error: grid.yaml: {stopped}; the first, ")
    assert error.endswith("(lr=3, layers=1): crashed: exit code 7: no learning rate for mortals")
    ways = f"deployer heal {path}; or create another sweep: deployer up grid.yaml --new"
    assert hint == f"hint: fix the script, then run them again: {ways}"
    assert [one["sweep"] for one in read(project, "sweep", "list", "--project", "proj")] == [path]
    project.run("heal", path)
    continued = project.run("up", "grid.yaml", "--detach")
    assert f"continuing sweep {path}" in continued.stderr


@pytest.mark.slow(seconds=65)
def test_heal_on_a_server_that_requeues_nothing(
    project: Project, plain_backend: ServedBackend
) -> None:
    environment = plain_backend.environment
    grid_file = project.write_grid(lrs="[1.0, 5.0]", text=FAILS_ABOVE_2 + "retries: 0\n")
    grid_file.write_text(grid_file.read_text().replace("[1, 2]", "[1]"))
    done = project.run("up", "grid.yaml", "--plain", code=3, **environment)
    assert done.stderr.count("not guaranteed by this server: ") == 1
    assert "1/2 configurations finished, 0 duplicates, 0 lost, 1 failed" in done.stdout
    train = project.folder / "train.py"
    train.write_text(train.read_text().replace("arguments.lr > arguments.fail_above", "False"))

    healing = read(project, "heal", "--replicas", "1", **environment)
    assert (healing["count"], healing["created"]) == (1, True)
    again = project.run("heal", **environment)
    follow_up = healing["sweep_path"]
    assert f"the missing configurations run in the follow-up {follow_up}" in again.stderr
    assert f"deployer watch {follow_up}" in again.stderr
    project.run("watch", follow_up, "--plain", **environment)
    whole = read(project, "results", healing["original"], **environment)
    assert whole["coverage"]["sentence"] == (
        "2/2 configurations finished, 0 duplicates, 0 lost, 1 healed"
    )
    [healed] = [r for r in whole["runs"] if r["heals"]]
    assert healed["parameters"] == {"lr": 5, "layers": 1}
    assert healed["value"] == pytest.approx(5 / 3)


def test_heal_gives_a_run_that_fails_as_many_attempts_as_are_asked_for(
    project: Project, backend: ServedBackend
) -> None:
    sdk = Sdk.of(backend, f"heal-{uuid.uuid4().hex[:8]}")
    sweep = sdk.create_sweep({**grid(lr=[1]), "retries": 0})
    agent = sdk.create_agent(sweep)
    sdk.work_once(agent, exit_code=1)
    assert sdk.sweep(sweep)["state"] == "FINISHED"
    path = f"{sdk.entity}/{sdk.project}/{sweep}"
    healed = project.run("heal", path, "--retries", "1", **backend.environment)
    assert f"{path}: 1 configuration to run again" in healed.stderr
    for _ in range(2):
        assert sdk.sweep(sweep)["state"] == "RUNNING"
        sdk.work_once(agent, exit_code=1)
    assert sdk.sweep(sweep)["state"] == "FINISHED"


def test_a_watcher_stops_twins_and_what_overshoots(
    project: Project, plain_backend: ServedBackend
) -> None:
    sdk = Sdk.of(plain_backend, f"guard-{uuid.uuid4().hex[:8]}")
    sweep = sdk.create_sweep(grid(lr=[1, 2]))
    path = f"{sdk.entity}/{sdk.project}/{sweep}"
    (command,) = sdk.heartbeat(sdk.create_agent(sweep))
    first = command["run_id"]
    sdk.init_run(first, config=json.dumps(command["args"]))
    sdk.init_run("twin", sweep=sweep, config=json.dumps(command["args"]))
    words = ("watch", path, "--plain", "--timeout", "0s")
    watched = project.run(*words, code=4, **plain_backend.environment)
    assert "stopped twin: another run has its configuration" in watched.stderr
    assert (sdk.run("twin")["shouldStop"], sdk.run(first)["shouldStop"]) == (True, False)

    sdk.finish("twin", 255)
    sdk.log(first, [{"_step": 0, "loss": 1.0}])
    sdk.finish(first)
    sdk.init_run("other", sweep=sweep, config='{"lr": {"value": 2}}')
    sdk.finish("other")
    sdk.set_state(sweep, "RUNNING")
    watched = project.run(*words, code=None, **plain_backend.environment)
    assert "stopped the sweep: every configuration is finished" in watched.stderr
    assert sdk.sweep(sweep)["state"] == "FINISHED"
    done = project.run(*words[:3], **plain_backend.environment)
    assert "2/2 configurations finished, 0 duplicates, 0 lost\n" in done.stdout


@pytest.mark.full
@pytest.mark.slow
def test_after_the_machine_went_down_up_goes_on(project: Project) -> None:
    project.write_grid(lrs="[1.0]")
    hold = project.write("hold", "runs go on when this file is gone")
    path = project.run("sweep", "create", "grid.yaml").stdout.strip()
    up = project.start("up", "grid.yaml", "--replicas", "2", "--plain")
    wait_for(lambda: [a for a in read(project, "agents", "list", path) if a["run_id"]])
    agents = read(project, "agents", "list", path)
    supervisors = [a["process_id"] for a in agents if a["process_id"]]
    for process_id in (up.pid, read(project, "backend", "status")["process_id"]):
        os.kill(process_id, signal.SIGKILL)
    for process_id in supervisors:
        kill_with_children(process_id)
    up.communicate()
    hold.unlink()
    done = project.run("up", "grid.yaml", "--replicas", "2", "--plain")
    assert f"continuing sweep {path}" in done.stderr
    assert "2/2 configurations finished, 0 duplicates, 0 lost" in done.stdout


@pytest.mark.full
def test_a_waiting_up_lets_down_take_everything(project: Project) -> None:
    """Whoever watches comes between any two steps of `down`, which a busy machine stretches."""
    project.write_grid()
    project.write("hold", "runs go on when this file is gone")
    path = project.run("sweep", "create", "grid.yaml").stdout.strip()

    def start() -> tuple[subprocess.Popen[str], list[str]]:
        up = project.start("up", "grid.yaml", "--plain")
        busy = wait_for(lambda: [a for a in read(project, "agents", "list", path) if a["run_id"]])
        return up, [agent["name"] for agent in busy]

    up, names = start()
    executor = open_local(os.environ)
    executor.wanted.withdraw(path)
    assert executor.stop(names) == names
    _, err = up.communicate(timeout=60)
    assert up.returncode == 3
    assert "started again" not in err
    assert err.splitlines()[-1] == f"hint: deployer agents up {path}"

    up, names = start()
    project.run("backend", "down")
    _, err = up.communicate(timeout=60)
    assert "started again" not in err
    assert up.returncode == 1
    assert err.splitlines()[-3:] == [
        f"1 agent of {path} still runs: deployer down {path}",
        "error: the embedded backend was stopped",
        f"hint: deployer watch {path}",
    ]
    assert read(project, "backend", "status")["running"] is False
    assert "1 agent ended" in project.run("down", "--all").stderr
