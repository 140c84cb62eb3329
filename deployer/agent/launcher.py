"""Starts `wandb agent` so that it notices the end of its run at once.

W&B's agent sleeps `Agent.POLL_INTERVAL`, 5 s, between two polls of its run. Here that attribute
waits for the run's end instead, and the agent keeps its wandb-core; everything else is unchanged.
Inside the agent's process, the launcher also sees how a run ended or why it could not start, which
the agent does not report. It writes that to a file for the supervisor.
"""

import contextlib
import importlib
import json
import logging
import os
import runpy
import select
import signal
import sys
import time
from typing import Any, Dict, List, Mapping, Optional

from .environment import isolated_command, wrapper_command
from .host.processes import AGENT_NAME, name_process
from .host.status import find_obstacle
from .settings import (
    CHECKPOINTS_VARIABLE,
    FOLDER_VARIABLE,
    ISOLATE_VARIABLE,
    METRICS_VARIABLE,
    OUTPUTS_VARIABLE,
)
from .warm.sdk import PORT_FILE_MODULE, keep_core, look_sooner

STOCK_SECONDS = 5.0
# An agent without work asks again after a quarter of its idle time. So a reassigned run begins
# soon, and an idle hour costs hardly more requests than with W&B's 5 s.
SHORTEST_SECONDS = 0.2
IDLE_SHARE = 0.25
# The agent must not report the end of a run before the supervisor has told the server its cause.
HOLD_SECONDS = 5.0
LOOK_SECONDS = 0.002
FOLDER_SECONDS = 0.5
EXIT_NAME = "run-exit.json"
# The prologue sets the same folders in the run's Python.
OUTPUT_FOLDER, BEGAN_END = "DEPLOYER_OUTPUT_DIR", ".began"
RUN_FOLDERS = {OUTPUT_FOLDER: OUTPUTS_VARIABLE, "DEPLOYER_CHECKPOINT_DIR": CHECKPOINTS_VARIABLE}
WRAPS = {METRICS_VARIABLE: wrapper_command, ISOLATE_VARIABLE: isolated_command}
# A shell's exit codes for a program that cannot be started, by the agent's exception.
START_FAILURES = {
    "FileNotFoundError: ": 127,
    "PermissionError: ": 126,
    "OSError: [Errno 7] ": 126,  # a command line that is too long
    "OSError: [Errno 8] ": 126,  # not an executable for this machine
}
OTHER_START_FAILURE = 1
MACHINE_FAILURES = ("OSError: ", "BlockingIOError: ", "MemoryError")  # no room for a process


def main(quick: bool) -> None:
    """Run wandb's command line in this process; never returns.

    An agent that is not `quick` waits as long as the stock one.
    """
    name_process(AGENT_NAME)
    sys.argv = sys.argv[1:]  # the arguments after `-c`: `wandb agent ...`
    from wandb import wandb_agent

    with contextlib.suppress(ImportError):
        __import__(PORT_FILE_MODULE)  # the agent imports it at its first request
        look_sooner()
        sdk = __import__("deployer_sdk")  # the prologue's; the agent ends like a run
        sdk.close_when_read(importlib.import_module(sdk.CLIENT))
    keep_core()
    wandb_agent.logger.addFilter(shorten)
    if any(map(os.environ.get, WRAPS)):
        wrap_runs(wandb_agent)
    agent = getattr(wandb_agent, "Agent", None)
    if hasattr(agent, "_command_run"):
        name_folders(agent)
    else:
        said = "this wandb has no Agent._command_run; only Python knows a run's folders"
        sys.stderr.write(f"deployer: {said}\n")
    if hasattr(agent, "POLL_INTERVAL"):
        wait = EndOfRun(os.environ[FOLDER_VARIABLE], quick)
        agent.POLL_INTERVAL = property(wait)  # type: ignore[union-attr]
    else:
        sys.stderr.write("deployer: this wandb has no Agent.POLL_INTERVAL; its agent waits 5 s\n")
    runpy.run_module("wandb", run_name="__main__", alter_sys=True)


def wrap_runs(module: Any) -> None:
    """Make the agent start runs through the wrappers for own folders and for metrics."""
    start = module.AgentProcess

    def start_wrapped(*arguments: Any, command: List[str], **named: Any) -> Any:
        for variable, wrap in WRAPS.items():
            command = wrap(command) if os.environ.get(variable) else command
        return start(*arguments, command=command, **named)

    module.AgentProcess = start_wrapped


def shorten(record: logging.LogRecord) -> bool:
    """Log only the first and last line of a run's command, which may contain a program."""
    lines = str(record.msg).splitlines()
    if len(lines) > 2 and lines[0].startswith("About to run command: "):
        record.msg = f"{lines[0]} ... {lines[-1]}"
    return True


def name_folders(agent_class: Any) -> None:
    """Set the run's folders in the environment of its command, for shells and macros."""
    start = agent_class._command_run

    def start_named(agent: Any, command: Mapping[str, Any]) -> Any:
        try:
            make_folders(command["run_id"])
        except OSError as error:  # the run's Python may not need them
            sys.stderr.write(f"deployer: the run's folders are not ready: {error}\n")
        return start(agent, command)

    agent_class._command_run = start_named


def make_folders(run_id: str) -> None:
    """Create a run's folders and set their environment variables; raises OSError."""
    own = os.path.join(os.environ["WANDB_SWEEP_ID"], run_id)
    for name in RUN_FOLDERS:
        os.environ.pop(name, None)  # of the previous run
    for name, root in RUN_FOLDERS.items():
        if os.environ.get(root):
            folder = os.path.join(os.environ[root], own)
            os.makedirs(folder, exist_ok=True)
            os.environ[name] = folder
    if OUTPUT_FOLDER in os.environ:
        began = f"{os.environ[OUTPUT_FOLDER]}{BEGAN_END}"
        with open(began, "w", encoding="utf-8"):  # older files are from an earlier attempt
            os.utime(began)


class EndOfRun:
    """Waits for the end of the agent's run, or until the next request for work."""

    def __init__(self, folder: str, quick: bool) -> None:
        self._folder = folder
        self._path = os.path.join(folder, EXIT_NAME)
        self._quick = quick
        self._answered = 0
        self._seen: Dict[str, float] = {}  # when each run was there first, in the clock of files
        self.idle_since = time.monotonic()

    def __call__(self, agent: Any) -> float:
        """Wait; return how many seconds the agent must sleep afterwards."""
        begun = time.monotonic()
        runs = list_runs(agent)
        self._seen = {run_id: self._seen.get(run_id, time.time()) for run_id in runs}
        self._report_ends(self._list_failed_starts(agent))
        if runs:
            wait_for_end(runs, STOCK_SECONDS)
            self._report_ends(
                {run_id: read_exit_status(process) for run_id, process in runs.items()}
            )
            self.idle_since = time.monotonic()
        else:
            await_folder(self._folder)
            if self._quick:
                return choose_idle_wait(begun - self.idle_since)
        waited = time.monotonic() - begun
        return 0.0 if self._quick else max(0.0, STOCK_SECONDS - waited)

    def _list_failed_starts(self, agent: Any) -> Dict[str, Optional[int]]:
        """Return the exit statuses of runs that the agent failed to start since the last call.

        The agent does not report them to the server, as if it had never received them.
        """
        answered = getattr(agent, "_log", [])[self._answered :]
        self._answered += len(answered)
        return {
            command["run_id"]: read_start_failure(response["exception"], self._folder)
            for command, response in answered
            if command.get("type") in ("run", "resume") and "exception" in response
        }

    def _report_ends(self, ends: Mapping[str, Optional[int]]) -> None:
        """Report to the supervisor how runs have ended, and wait for its acknowledgment."""
        for run_id, status in ends.items():
            if status is not None:
                await_folder(self._folder)
                if status == 0 and os.environ.get(ISOLATE_VARIABLE):
                    end_isolation(run_id)
                write_exit(self._path, run_id, status, self._seen.get(run_id, time.time()))
                os.kill(os.getppid(), signal.SIGCHLD)  # wakes the supervisor
                wait_until_gone(self._path, HOLD_SECONDS)


def end_isolation(run_id: str) -> None:
    """Remove the isolated folder of a finished run, and keep its output files."""
    own = {"WANDB_RUN_ID": run_id, "WANDB_SWEEP_ID": sys.argv[-1].rpartition("/")[2]}
    try:
        __import__("deployer_folder").end_folder({**os.environ, **own})
    except OSError as error:
        sys.stderr.write(f"deployer: the folder of run {run_id} stays: {error}\n")


def await_folder(folder: str) -> None:
    """Wait until the agent's folder is writable, which every run needs."""
    said = ""
    while True:
        obstacle = find_obstacle(folder)
        if not obstacle:
            return
        if obstacle != said:
            said = obstacle
            with contextlib.suppress(OSError):
                sys.stderr.write(f"deployer: waiting: {obstacle}\n")
        time.sleep(FOLDER_SECONDS)


def choose_idle_wait(seconds: float) -> float:
    """Return the wait in seconds for a quick agent that has been idle for `seconds`."""
    return min(max(SHORTEST_SECONDS, IDLE_SHARE * seconds), STOCK_SECONDS)


def list_runs(agent: Any) -> Dict[str, int]:
    processes = getattr(agent, "_run_processes", {}).items()
    found = {run_id: getattr(process, "_popen", None) for run_id, process in processes}
    return {run_id: process.pid for run_id, process in found.items() if process}


def wait_for_end(runs: Mapping[str, int], seconds: float) -> None:
    """Wait until one of the runs has ended, at most `seconds`.

    Falls back to sleeping like the stock agent on Python 3.8 and kernels before 5.3.
    """
    handles = []
    try:
        handles = [os.pidfd_open(process) for process in runs.values()]
        select.select(handles, [], [], seconds)
    except ProcessLookupError:
        pass  # it has ended and was reaped
    except (AttributeError, OSError):
        time.sleep(seconds)
    finally:
        for handle in handles:
            os.close(handle)


def read_start_failure(exception: str, folder: str) -> Optional[int]:
    """Return the exit status for an exception that prevented a run from starting.

    None if the machine or the agent's own `folder` caused it, so that the run can be reassigned.
    """
    if folder in exception:
        return None
    known = (code for start, code in START_FAILURES.items() if exception.startswith(start))
    other = None if exception.startswith(MACHINE_FAILURES) else OTHER_START_FAILURE
    return next(known, other)


def read_exit_status(process: int) -> Optional[int]:
    """Return a child's exit status, negative for a signal, unreaped; None if running."""
    try:
        ended = os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    if not ended:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def write_exit(path: str, run_id: str, status: int, began_at: float) -> None:
    record = {"run_id": run_id, "status": status, "began_at": began_at}
    temporary = f"{path}.new"
    with contextlib.suppress(OSError):  # a full disk must not end the agent
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(record, file)
        os.replace(temporary, path)


def wait_until_gone(path: str, seconds: float) -> None:
    """Wait until a file is removed, at most `seconds`."""
    deadline = time.monotonic() + seconds
    while os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
