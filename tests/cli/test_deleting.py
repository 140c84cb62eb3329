"""What is deleted: a sweep without living agents, a backend's data with what is known of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from deployer.config.paths import outputs_folder
from deployer.sweeps.records import Records, SweepRecord
from tests.backend.client import Client, grid
from tests.cli.conftest import Project
from tests.cli.test_recovery import read
from tests.conftest import ServedBackend


@pytest.mark.slow
def test_a_sweep_is_deleted_once_its_agents_are_gone(project: Project) -> None:
    project.write_grid()
    path = project.run("sweep", "create", "grid.yaml").stdout.strip()
    project.run("sweep", "pause")  # so that no run begins
    project.run("agents", "up", "--replicas", "1")
    (agent,) = read(project, "agents", "list")
    refused = project.run("sweep", "delete", path, "--yes", code=1).stderr.splitlines()[-2:]
    assert refused == [
        f"error: {path}: agents are still running: {agent['name']}",
        f"hint: deployer down {path}",
    ]
    project.run("down")
    deleted = project.run("sweep", "delete", path, "--yes", "-o", "json").stdout
    assert json.loads(deleted) == {"sweep": path, "state": "DELETED"}
    assert read(project, "sweep", "list") == []


@pytest.mark.slow
def test_a_name_that_is_not_the_sweeps_deletes_nothing(project: Project) -> None:
    project.write_grid()
    path = project.run("sweep", "create", "grid.yaml").stdout.strip()
    sweep = path.rpartition("/")[2]
    for flag, words in (
        ("--project", ("sweep", "delete", sweep, "--yes")),
        ("--entity", ("sweep", "cancel", path, "-y")),
        ("--project", ("agents", "down")),
        ("--project", ("down", sweep)),
        ("--entity", ("results",)),
    ):
        refused = project.run(*words, flag, "other", code=2).stderr
        assert f"error: {flag}: {path} is not in 'other'" in refused
    refused = project.run("--project", "other", "down", "--all", "--delete-data", "-y", code=2)
    assert "error: --all: covers every project" in refused.stderr
    (listed,) = read(project, "sweep", "list")
    assert (listed["sweep"], listed["state"]) == (path, "PENDING")
    assert project.run("sweep", "show", sweep, "--project", "proj").stdout


def answer(project: Project, word: str, *words: str, **environment: str) -> list[str]:
    """Say a word to the question on a terminal; return the last two lines there."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "deployer", "sweep", "delete", *words]
    process = subprocess.Popen(
        command,
        cwd=project.folder,
        env={**os.environ, **environment},
        stdin=theirs,
        stderr=theirs,
    )
    os.write(ours, f"{word}\n".encode())
    assert process.wait(60) == 0
    return os.read(ours, 4096).decode().splitlines()[-2:]


def test_other_servers_delete_sweeps_on_their_page(
    project: Project, plain_backend: ServedBackend
) -> None:
    sweep = Client.of(plain_backend, "deleting").create_sweep(grid(x=[1]))
    path = f"{plain_backend.entity}/deleting/{sweep}"
    environment = plain_backend.environment
    refused = project.run("sweep", "delete", path, code=2, **environment).stderr
    assert refused.splitlines() == [
        "error: --yes: is missing, and deployer cannot ask without a terminal",
        "hint: add --yes to confirm",
    ]
    said = project.run("sweep", "delete", path, "--yes", code=1, **environment).stderr
    assert said.splitlines()[-2:] == [
        f"error: {plain_backend.url} deletes sweeps only on their page",
        f"hint: open {plain_backend.url}/{plain_backend.entity}/deleting/sweeps/{sweep}",
    ]


def test_data_on_this_machine_goes_alone(project: Project) -> None:
    for name, on in (("here", ""), ("there", "kubernetes")):
        words = (name, f"tester/p/{name}", "embedded", "http://x", "/f", "s.yaml", "hash", 1.0)
        Records.load().add(SweepRecord(*words, backend_on=on))
        write_output(name)
    project.run("down", "--all", "--on", "local")
    assert sorted(path.name for path in outputs_folder().iterdir()) == ["here", "there"]
    project.run("down", "--all", "--delete-data", "-y", "--on", "local")
    assert [record.sweep_path for record in Records.load()] == ["tester/p/there"]
    assert [path.name for path in outputs_folder().iterdir()] == ["there"]


def test_only_what_is_listed_is_deleted(project: Project) -> None:
    """Outputs without a backend's data are listed, too; a cluster without an answer keeps its."""
    Records.load().add(
        SweepRecord("here", "tester/p/here", "embedded", "http://x", "/f", "s.yaml", "hash", 1.0)
    )
    write_output("here")
    command = ("down", "--all", "--delete-data")
    refused = project.run(*command, "--on", "local", code=2).stderr.splitlines()
    assert refused == [
        "to be deleted: outputs of tester/p/here on this machine, 5 kB",
        "error: --yes: is missing, and deployer cannot ask without a terminal",
        "hint: add --yes to confirm",
    ]
    assert [path.name for path in outputs_folder().iterdir()] == ["here"]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file = write_kubeconfig(project, silent)
    unlisted = project.run(*command, "--on", "kubernetes", code=1, KUBECONFIG=str(file)).stderr
    assert unlisted.startswith("the data on kubernetes cannot be listed and was kept: ")
    project.run(*command, "-y", "--on", "local")
    assert not any(outputs_folder().iterdir())
    assert not tuple(Records.load())


def write_output(sweep_id: str) -> None:
    """Write what a run of a sweep keeps on this machine."""
    folder = outputs_folder() / sweep_id / "run"
    folder.mkdir(parents=True)
    (folder / "best.pt").write_bytes(b"12345" * 1000)


def test_outputs_go_with_their_sweep(project: Project, backend: ServedBackend) -> None:
    sweep = Client.of(backend, "deleting").create_sweep(grid(x=[1]))
    for name in (sweep, "other"):
        write_output(name)
    path = f"{backend.entity}/deleting/{sweep}"
    # Quiet, too, it asks what somebody has to answer, and shows what that is about.
    said = answer(project, "n", "--quiet", path, **backend.environment)
    goes = "its 0 runs stay, their local outputs are deleted: 5 kB"
    whose = f"made by {backend.entity} elsewhere"
    assert f"delete sweep {path}, {whose}, permanently ({goes})? [y/N]" in said
    assert any(line.startswith("using ") for line in said)
    assert sorted(one.name for one in outputs_folder().iterdir()) == sorted([sweep, "other"])
    project.run("sweep", "delete", path, "--yes", **backend.environment)
    assert [one.name for one in outputs_folder().iterdir()] == ["other"]


def test_down_says_what_it_has_really_done(project: Project) -> None:
    nothing = "found no agents of yours on this machine"
    assert project.run("down", "--all").stderr == f"{nothing}\n"
    owned = project.run("down", "--all", "--owner", "zoe").stderr
    assert "all agents on this machine are yours" in owned
    everything = project.run("down", "--all", "--delete-data", "-y").stderr
    assert everything == f"{nothing}\n"
    # Unknown here, and perhaps in a cluster: that is no success.
    for words in (("down",), ("agents", "down")):
        refused = project.run(*words, "bob/p/abc12345", "-y", code=1).stderr.splitlines()
        assert refused == [
            "error: nothing of bob/p/abc12345 was found on this machine",
            "hint: if its agents are in a cluster: deployer down bob/p/abc12345 --on kubernetes",
        ]


def write_kubeconfig(project: Project, silent: socket.socket) -> Path:
    """Write a kubeconfig that leads to a socket."""
    server = f"http://127.0.0.1:{silent.getsockname()[1]}"
    cluster = {"name": "c", "cluster": {"server": server}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    users = {"users": [{"name": "u", "user": {}}]}
    kubeconfig = {"clusters": [cluster], "contexts": [context], "current-context": "c", **users}
    return project.write("kubeconfig", json.dumps(kubeconfig))


@pytest.mark.parametrize(
    "words",
    [
        "down bob/p/abc12345",
        pytest.param("down --all", marks=pytest.mark.full),
        pytest.param("agents scale 0 bob/p/s", marks=pytest.mark.full),
    ],
)
def test_ctrl_c_says_that_agents_go_on(project: Project, words: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        file = write_kubeconfig(project, silent)
        process = project.start(*words.split(), "--on", "kubernetes", KUBECONFIG=str(file))
        silent.accept()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    command = f"deployer {words} --on kubernetes"
    assert f"live agents continue; to repeat: {command}" in err


@pytest.mark.parametrize("extended", [True, False], ids=["embedded", "plain"])
def test_agents_that_only_the_server_knows_are_asked_about(
    project: Project, backend: ServedBackend, plain_backend: ServedBackend, extended: bool
) -> None:
    """Somebody else's, or those of another machine, wherever the command is typed."""
    served = backend if extended else plain_backend
    sdk = Client.of(served, f"asked-{extended}")
    sweep = sdk.create_sweep(grid(x=[1, 2]))
    agent = sdk.create_agent(sweep)
    run = sdk.heartbeat(agent)[0]["run_id"]
    sdk.init_run(run)
    path = f"{sdk.entity}/asked-{extended}/{sweep}"
    for words in (("pause",), ("stop",), ("cancel",), ("pause", "--on", "local")):
        refused = project.run("sweep", *words, path, code=2, **served.environment)
        assert "1 agent started elsewhere working on it\n" in refused.stderr
        assert "--yes: is missing" in refused.stderr
    assert sdk.sweep(sweep)["state"] == "RUNNING"
    if extended:
        refused = project.run("sweep", "delete", path, "-y", code=1, **served.environment)
        assert refused.stderr.splitlines()[-2:] == [
            f"error: {path}: agents of other users may be working on it",
            f"hint: deployer sweep stop {path}",
        ]
    project.run("sweep", "stop", path, "--yes", **served.environment)
    assert sdk.sweep(sweep)["state"] == "FINISHED"
