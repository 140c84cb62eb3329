"""The launcher of `wandb agent`: it sees the end of a run at once, and asks seldom without work."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deployer.agent.launcher import (
    EXIT_NAME,
    STOCK_SECONDS,
    EndOfRun,
    name_folders,
    read_start_failure,
    shorten,
)
from deployer.agent.runs.run_ends import RunExit
from tests.agent.conftest import Bench, wait_for
from tests.contract.sdks import python_with
from tests.faults.disk import unwritable


@dataclass
class Running:
    """What wandb's agent keeps of a run: here, a process of our own."""

    _popen: subprocess.Popen[bytes]


@dataclass
class Runs:
    """What the launcher reads of wandb's agent."""

    _run_processes: dict[str, Running] = field(default_factory=dict)
    _log: list[tuple[dict[str, str], dict[str, str]]] = field(default_factory=list)


def start(code: str) -> Running:
    return Running(subprocess.Popen([sys.executable, "-I", "-S", "-c", code]))


@pytest.mark.parametrize(
    ("code", "failure", "exit_code", "killed"),
    [
        ("", "", 0, False),
        ("raise SystemExit(7)", "", 7, False),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "", 137, True),
        ("", "FileNotFoundError: [Errno 2] No such file", 127, False),
        ("", "OSError: [Errno 8] Exec format error", 126, False),
        ("", "OSError: [Errno 7] Argument list too long", 126, False),
    ],
)
def test_the_agent_waits_until_the_supervisor_knows_how_its_run_ended(
    tmp_path: Path, code: str, failure: str, exit_code: int, killed: bool
) -> None:
    began = time.time()
    if failure:
        command = {"type": "run", "run_id": "run-1"}
        runs = Runs(_log=[(command, {}), (command, {"exception": failure})])
    else:
        runs = Runs({"run-1": start(code)})
    wait = EndOfRun(str(tmp_path), True)
    waiting = threading.Thread(target=wait, args=(runs,))
    waiting.start()
    exit_file = tmp_path / EXIT_NAME
    wait_for(exit_file.exists, "the exit file")
    seen = RunExit(str(tmp_path))
    late = seen.began_at
    seen.look("run-1")
    assert (seen.exit_code, seen.killed) == (exit_code, killed)
    assert began <= seen.began_at < late
    assert waiting.is_alive()
    seen.acknowledge()
    waiting.join()
    wait(Runs(_log=runs._log))
    assert not exit_file.exists(), "it is told once"


def test_the_end_of_a_run_is_kept_until_the_folder_can_be_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = f"deployer: waiting: {tmp_path} cannot be written now: "
    with unwritable(tmp_path):
        runs = Runs({"run-1": start("raise SystemExit(7)")})
        waiting = threading.Thread(target=EndOfRun(str(tmp_path), True), args=(runs,))
        waiting.start()
        wait_for(lambda: said in capfd.readouterr().err, "the reason of the wait")
    seen = RunExit(str(tmp_path))
    wait_for(lambda: seen.look("run-1") or seen.exit_code, "the exit code")
    assert seen.exit_code == 7
    seen.acknowledge()
    waiting.join()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("PermissionError: [Errno 13] Permission denied: './train'", 126),
        ("PermissionError: [Errno 13] Permission denied: '/state/a1/wandb/config.yaml'", None),
        ("OSError: [Errno 12] Cannot allocate memory", None),
        ("KeyError: 'args'", 1),
    ],
)
def test_only_the_command_is_blamed_for_a_failed_start(error: str, code: int | None) -> None:
    assert read_start_failure(error, "/state/a1") == code


def test_a_run_starts_though_its_folders_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Starter:
        """What the launcher changes of wandb's agent: it returns the folder that the run gets."""

        def _command_run(self, command: dict[str, str]) -> str | None:
            assert command["run_id"]
            return os.environ.get("DEPLOYER_OUTPUT_DIR")

    monkeypatch.setenv("WANDB_SWEEP_ID", "s1")
    monkeypatch.setenv("DEPLOYER_OUTPUT_ROOT", str(tmp_path / "outputs"))
    monkeypatch.setenv("DEPLOYER_OUTPUT_DIR", "another run's")
    monkeypatch.delenv("DEPLOYER_CHECKPOINT_ROOT", raising=False)
    name_folders(Starter)
    assert Starter()._command_run({"run_id": "r1"}) == str(tmp_path / "outputs" / "s1" / "r1")
    (tmp_path / "outputs" / "s1" / "r2").touch()
    assert Starter()._command_run({"run_id": "r2"}) is None
    assert capsys.readouterr().err.startswith("deployer: the run's folders are not ready: ")


def test_a_program_in_a_command_is_one_line_of_the_log() -> None:
    said = "About to run command: python -c import os\nprint()\nos.execvp() --lr=1"
    record = logging.LogRecord("agent", logging.INFO, "", 1, said, (), None)
    assert shorten(record)
    assert record.getMessage() == "About to run command: python -c import os ... os.execvp() --lr=1"


def test_what_an_earlier_run_left_is_not_taken_for_the_present_one(tmp_path: Path) -> None:
    (tmp_path / EXIT_NAME).write_text(json.dumps({"run_id": "run-1", "status": 2, "began_at": 0.0}))
    seen = RunExit(str(tmp_path))
    seen.look("run-2")
    assert seen.exit_code is None


def test_an_agent_without_work_asks_less_and_less(tmp_path: Path) -> None:
    wait = EndOfRun(str(tmp_path), True)
    first = wait(Runs())
    wait.idle_since -= 8.0
    second = wait(Runs())
    wait.idle_since -= 3600.0
    assert 0 < first < 1 < second < 3
    assert wait(Runs()) == STOCK_SECONDS


def test_an_agent_that_is_not_quick_waits_as_the_stock_one(tmp_path: Path) -> None:
    wait = EndOfRun(str(tmp_path), False)
    assert STOCK_SECONDS - 1 < wait(Runs()) <= STOCK_SECONDS


LOOKS = """
import wandb.sdk.lib.service.service_port_file as waiting
from deployer.agent.warm.sdk import look_sooner, sleep_shortly
look_sooner()
print(waiting._SLEEP is sleep_shortly)
"""


def see_looks(python: str | Path) -> str:
    code = f"import sys; sys.path.append({str(Path.cwd())!r})\n{LOOKS}"
    return subprocess.check_output([python, "-c", code], text=True).strip()


def test_the_sdk_looks_soon_whether_its_core_listens() -> None:
    assert see_looks(sys.executable) == "True"


@pytest.mark.full
@pytest.mark.parametrize("version", ["0.22.3", "0.26.1"])
def test_an_older_wandb_is_launched_quickly(bench: Bench, version: str) -> None:
    path = bench.create_sweep("[1.0, 2.0]")
    supervised = bench.start(path, python=python_with(version))
    code, output = supervised.wait()
    assert code == 0, output
    assert "no Agent.POLL_INTERVAL" not in output
    assert [run.state for run in bench.runs(path)] == ["finished", "finished"]
    assert see_looks(python_with(version)) == "True"
