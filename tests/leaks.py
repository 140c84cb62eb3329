"""A run of tests fails if processes of its tests are still running at its end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

END_SECONDS = 10.0
LEFT = pytest.StashKey[list[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Name and kill processes whose state folder lies below the run's temporary folder."""
    if hasattr(session.config, "workerinput"):  # one of several processes of pytest-xdist
        return
    folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    deadline = time.monotonic() + END_SECONDS
    while (left := find_processes(folder)) and time.monotonic() < deadline:
        time.sleep(0.5)
    session.config.stash[LEFT] = [_describe(process) for process in left]
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print what was left."""
    if left := config.stash.get(LEFT, []):
        terminalreporter.section("error: processes that tests left running")
        for line in left:
            terminalreporter.line(line)


def find_processes(folder: Path) -> Sequence[psutil.Process]:
    """Return the processes whose DEPLOYER_HOME lies below a folder, but for those of pytest."""
    own = psutil.Process()
    pytests = {own.pid, *(child.pid for child in own.children())}
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            home = process.environ().get("DEPLOYER_HOME", "")
            below = Path(home).is_relative_to(folder) and process.pid not in pytests
            if below and not (process.ppid() in pytests and _ends_with_parent(process)):
                found.append(process)
    return found


def _ends_with_parent(process: psutil.Process) -> bool:
    """Return True for the service of the SDK, and for multiprocessing's."""
    return process.name() == "wandb-core" or "resource_tracker" in " ".join(process.cmdline())


def _describe(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        command = " ".join(process.cmdline())
        return f"{process.pid} {process.environ()['DEPLOYER_HOME']}: {command}"
    return f"{process.pid}"
