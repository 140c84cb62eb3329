"""Every error that the command line shows: text, hint, exit code, and the same as JSON."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backend.client import Client
from tests.cli.conftest import Project
from tests.conftest import FOREIGN_KEY, ServedBackend
from tests.faults.disk import unwritable


def fail(project: Project, *words: str, code: int, **environment: str) -> list[str]:
    """Run a command that fails and return stderr's lines; stdout must be empty."""
    done = project.run(*words, code=code, **environment)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()


def test_no_words_show_the_help(project: Project) -> None:
    assert project.run().stdout == project.run("--help").stdout
    assert "deployer [OPTIONS] COMMAND" in project.run("--help").stdout


def test_an_error_and_what_to_do(project: Project) -> None:
    """`bad_commands.txt` has a hundred more."""
    server = "http://w.example"
    login = f"wandb login --host {server}, or export WANDB_API_KEY=…, or use --wandb embedded"
    for words, code, error, hint in (
        ("nope", 2, "No such command 'nope'", "deployer --help"),
        (
            "results",
            2,
            f"SWEEP: no sweep was created from {project.folder}",
            "name one as ENTITY/PROJECT/SWEEP_ID, or create one: deployer up FILE",
        ),
        (f"sweep list --wandb {server}", 2, f"--wandb: no key found for {server}", login),
        ("backend status", 1, "no backend has used ", "deployer backend up"),
    ):
        first, second = fail(project, *words.split(), code=code)
        assert first.startswith(f"error: {error}"), words
        assert second == f"hint: {hint}", words


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_no_bug(project: Project, unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "deployer", "--help"],
            cwd=project.folder,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: stdout or a file of deployer's: no space left on device",
        "hint: make room: df -h .; then type the command again",
    ]


def test_a_closed_stdout_ends_quietly(project: Project) -> None:
    command = ["sh", "-c", 'exec "$0" -m deployer --help >&-', sys.executable]
    done = subprocess.run(command, cwd=project.folder, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_file_that_cannot_be_written_is_no_bug(project: Project, backend: ServedBackend) -> None:
    project.write_grid()
    folder = Path(os.environ["DEPLOYER_HOME"], "sweeps")
    folder.mkdir(parents=True)
    with unwritable(folder):
        words = ("sweep", "create", "grid.yaml")
        error, hint = fail(project, *words, code=1, **backend.environment)[-2:]
    assert error.startswith(f"error: {folder}/")
    file = error.removeprefix("error: ").partition(": ")[0]
    assert hint == f"hint: see who may use it: ls -ld {file}; then type the command again"


def test_agents_need_a_folder_that_can_be_written(project: Project, backend: ServedBackend) -> None:
    project.write_grid()
    agents = Path(os.environ["DEPLOYER_HOME"], "agents")
    agents.mkdir(parents=True)
    with unwritable(agents):
        done = project.run("up", "grid.yaml", code=1, **backend.environment)
        assert project.run("agents", "list", "--all").stderr.strip() == "no agents"
    assert "created sweep" not in done.stderr
    *_, error, hint = done.stderr.splitlines()
    assert error.startswith(f"error: {agents} cannot be written now: ")
    assert hint == f"hint: ls -ld {agents}; findmnt -T {agents}"


@pytest.mark.parametrize(
    ("variable", "value"),
    [("DEPLOYER_HOME", "{}/s"), ("XDG_DATA_HOME", "{}"), ("HOME", "{}")],
)
def test_a_state_folder_that_cannot_be_is_blamed_on_who_chose_it(
    project: Project, variable: str, value: str
) -> None:
    """A file stands where the folder should be: root may write into any folder."""
    file = project.write("file", "no folder")
    environment = {"DEPLOYER_HOME": "", "XDG_DATA_HOME": "", variable: value.format(file)}
    error, hint = fail(project, "agents", "list", "--all", code=2, **environment)
    assert error.startswith(f"error: {variable}: {file}/")
    assert error.endswith(": Not a directory")
    assert hint == "hint: export DEPLOYER_HOME=FOLDER, with a folder that you may write to"


def test_a_relative_state_folder_is_refused(project: Project) -> None:
    error, hint = fail(project, "agents", "list", code=2, DEPLOYER_HOME="here")
    assert error == "error: DEPLOYER_HOME: here is a relative path"
    assert hint == 'hint: export DEPLOYER_HOME="$PWD/here"'


def test_all_complaints_about_a_file_are_shown_and_as_json(project: Project) -> None:
    project.write("deployer.yaml", "replica: 2\nentity: 3\n")
    assert fail(project, "results", code=2) == [
        "error: deployer.yaml:1: replica: unknown key",
        "hint: did you mean `replicas`?",
        "error: deployer.yaml:2: entity: 3 is not text",
        "hint: put it in quotes",
    ]
    (line,) = fail(project, "results", "-o", "json", code=2)
    error = json.loads(line)["error"]
    assert error["code"] == "config"
    hints = ["did you mean `replicas`?", "put it in quotes"]
    assert [e["hint"] for e in error["errors"]] == hints


def test_a_missing_program_starts_nothing(project: Project, backend: ServedBackend) -> None:
    """Neither server nor agent is there for it; nor for a sweep that was made elsewhere."""
    project.write_grid(lrs="[2.0]")
    (project.folder / "train.py").unlink()
    said = f"train.py: file not found in {project.folder}"
    hint = "hint: cd to the folder of the script, and name the sweep file from there"
    assert fail(project, "up", "grid.yaml", code=2) == [f"error: grid.yaml: program: {said}", hint]
    environment = backend.environment
    path = project.run("sweep", "create", "grid.yaml", **environment).stdout.strip()
    lines = fail(project, "agents", "up", path, code=2, **environment)
    assert lines[-2:] == [f"error: {path}: program: {said}", hint]


def test_a_wrong_key_is_said_to_be_wrong_but_never_shown(
    project: Project, backend: ServedBackend
) -> None:
    words = ("sweep", "list", "--wandb", backend.url)
    first, second = fail(project, *words, code=1, WANDB_API_KEY=FOREIGN_KEY)
    assert first.startswith(f"error: {backend.url}: ")
    assert second == f"hint: the key came from WANDB_API_KEY; is it a key of {backend.url}?"
    (line,) = fail(project, *words, "-o", "json", code=1, WANDB_API_KEY=FOREIGN_KEY)
    assert json.loads(line)["error"]["code"] == "wandb"
    assert FOREIGN_KEY not in first + second + line


def test_nobody_answers(project: Project) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        words = ("sweep", "list", "--wandb", url)
        first, second = fail(project, *words, code=1, WANDB_API_KEY=FOREIGN_KEY)
    assert first.startswith(f"error: {url}: cannot be reached (")
    assert second == "hint: check that the server runs and that the address is right"


def test_what_is_doubtful_in_a_file_is_said_before_anybody_is_asked(project: Project) -> None:
    project.write_grid(text="early_terminate: {type: median}\n")
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        for verb in (("up",), ("sweep", "create")):
            words = (*verb, "grid.yaml", "--wandb", url)
            warning, error, _ = fail(project, *words, code=1, WANDB_API_KEY=FOREIGN_KEY)
            assert warning.startswith(
                "warning: grid.yaml:9: early_terminate: the only known type is hyperband"
            )
            assert error.startswith(f"error: {url}: cannot be reached (")


def test_seed_and_retries_are_refused_where_they_have_no_use(
    project: Project, plain_backend: ServedBackend
) -> None:
    project.write_grid()
    for flag, said in (
        ("--seed", "draws without a seed"),
        ("--retries", "does not retry failed runs"),
    ):
        words = ("sweep", "create", "grid.yaml", flag, "2")
        lines = fail(project, *words, code=2, **plain_backend.environment)
        assert lines[-2:] == [
            f"error: {flag}: {plain_backend.url} {said}",
            f"hint: remove {flag}, or use --wandb embedded",
        ]


def test_an_ended_sweep_cannot_go_on(project: Project, backend: ServedBackend) -> None:
    project.write_grid()
    path = project.run("sweep", "create", "grid.yaml", **backend.environment).stdout.strip()
    entity, name, sweep_id = path.split("/")
    client = Client(backend.url, backend.key, entity, name)
    run = client.heartbeat(client.create_agent(sweep_id))[0]["run_id"]
    said = project.run("sweep", "cancel", path, "-y", **backend.environment).stderr
    asked = f"1 run asked to stop ({run}): 45 s at most, then killed: deployer watch {path}\n"
    assert said.endswith(asked)
    lines = fail(project, "sweep", "resume", path, code=1, **backend.environment)
    assert lines[-2:] == [
        f"error: {path} is CANCELED and cannot become RUNNING",
        "hint: deployer up FILE --new creates another sweep",
    ]


@pytest.mark.slow
def test_time_is_over_with_4_and_ctrl_c_ends_with_130(
    project: Project, backend: ServedBackend
) -> None:
    project.write_grid()
    path = project.run("sweep", "create", "grid.yaml", **backend.environment).stdout.strip()
    project.run("sweep", "pause", path, **backend.environment)
    project.run("agents", "up", path, **backend.environment)
    lines = fail(project, "watch", path, "--timeout", "0s", code=4, **backend.environment)
    assert lines[-1] == f"hint: deployer watch {path}"
    process = project.start("watch", path, **backend.environment)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("results page: ")
    assert "sweep paused" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert f"deployer watch {path}" in err
    assert f"1 agent of {path} still runs: deployer down {path}" in err
    listed = project.run("agents", "list", path, "-o", "json").stdout  # without a key
    assert [agent["state"] in ("starting", "running") for agent in json.loads(listed)] == [True]
