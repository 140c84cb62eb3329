"""An agent whose wandb-core has died is noticed; one that starts slowly is left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deployer.agent.exit_codes import AgentExit
from deployer.agent.host.core_health import LOOK_SECONDS, LOST, MISSING_LOOKS, CoreWatch
from deployer.agent.host.processes import is_core, list_processes
from tests.agent.conftest import wait_for


@contextmanager
def running(code: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-I", "-S", "-c", f"print('up', flush=True)\n{code}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        subprocess.run(["kill", "-KILL", "--", f"-{process.pid}"], check=True)


def test_a_program_that_it_waits_for_is_named_and_forgotten_once_it_answers(tmp_path: Path) -> None:
    code = f"subprocess.run(['cat'], cwd={str(tmp_path)!r}); print('answered', flush=True); "
    with running(f"import subprocess, sys; {code}sys.stdin.read()") as process:
        wait_for(lambda: any(p.parent == process.pid for p in list_processes()), "its child")
        watch = CoreWatch(process.pid)
        said = []
        for look in range(3):
            assert watch.judge(look * LOOK_SECONDS) is None
            said.append(watch.obstacle)
        assert said == ["", "", f"`cat` has not answered for 10 s in {tmp_path}"]
        assert watch.judge(100 * LOOK_SECONDS) is None  # however long it takes
        [child] = [p.id for p in list_processes() if p.parent == process.pid]
        os.kill(child, signal.SIGKILL)
        assert process.stdout
        process.stdout.readline()
        watch.judge(101 * LOOK_SECONDS)
        assert not watch.obstacle


# For each line on its stdin it starts, or ends, a child that is called wandb-core.
WITH_CORE = """
import os, subprocess, sys
for line in sys.stdin:
    if line == 'start\\n':
        core = subprocess.Popen(['/bin/wandb-core', '100'], executable='/bin/sleep')
    else:
        core.kill()
        core.wait()
    print('done', flush=True)
"""


class Agent:
    """An agent, looked at as its supervisor does, whose wandb-core comes and goes as told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.watch = CoreWatch(process.pid)
        self.now = 0.0

    def tell(self, word: str) -> None:
        """Start its wandb-core, or end it."""
        assert self._process.stdout is not None
        print(word, file=self._process.stdin, flush=True)
        self._process.stdout.readline()
        # A program is started a moment before it has its command line.
        wait_for(lambda: self._has_core() == (word == "start"), "its wandb-core")

    def _has_core(self) -> bool:
        return any(is_core(one) for one in list_processes() if one.parent == self._process.pid)

    def look(self, times: int, seconds: float = LOOK_SECONDS) -> AgentExit | None:
        """Look so often; return what the last look says."""
        for _ in range(times):
            self.now += seconds
            said = self.watch.judge(self.now)
        return said


def test_a_core_that_comes_late_is_no_dead_one() -> None:
    with running(WITH_CORE) as process:
        agent = Agent(process)
        assert agent.look(2 * MISSING_LOOKS) is None
        agent.tell("start")
        assert agent.look(1, seconds=0.5) is None  # between two looks
        agent.tell("end")
        assert agent.look(MISSING_LOOKS - 1) is None
        assert agent.look(1) is LOST


def test_a_core_that_died_during_a_run_counts_after_it() -> None:
    with running(WITH_CORE) as process:
        agent = Agent(process)
        agent.tell("start")
        agent.watch.reset()  # it has a run
        agent.tell("end")
        agent.watch.reset()
        assert agent.look(MISSING_LOOKS - 1) is None  # the run has ended
        assert agent.look(1) is LOST
