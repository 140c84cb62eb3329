"""An agent that starts slowly is left alone; one that stands still is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deployer.agent.exit_codes import STALLED, Ending
from deployer.agent.host.core_health import (
    LOOK_SECONDS,
    LOST,
    MISSING_LOOKS,
    STILL_LOOKS,
    STOOD_STILL,
    CoreWatch,
)
from deployer.agent.host.processes import is_core, list_processes
from tests.agent.conftest import wait_for

# Each line on its stdin makes it read a file, as an import does; between them it sleeps.
READER = """
import sys
for line in sys.stdin:
    with open(sys.executable, 'rb') as file:
        file.read(1 << 16)
    print('read', flush=True)
"""
# It ends with the test, even with one that is killed: its stdin ends then.
SPINNING = "import select\nwhile not select.select([0], [], [], 0)[0]: pass"
# A child works while its parent waits.
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPINNING!r}])"
MANY_LOOKS = STILL_LOOKS * 4 // 3  # more than one that stands still is given


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


def is_asleep(process_id: int) -> bool:
    return any(p.id == process_id and p.state == "S" for p in list_processes())


class Looks:
    """A watch on a process whose log is `log`; each look is one interval after the last."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.watch = CoreWatch(process.pid, str(log))
        self.now = 0.0

    def look(self) -> bool:
        """Look once; tell whether the agent is thought to stand still."""
        self.now += LOOK_SECONDS
        return self.watch.judge(self.now) is STOOD_STILL


def test_one_that_stands_still_is_found_after_two_minutes(tmp_path: Path) -> None:
    with running("import sys; sys.stdin.read()") as process:
        wait_for(lambda: is_asleep(process.pid), "its last step")
        looks = Looks(process, tmp_path / "log")
        # The first look has nothing to compare with.
        assert [looks.look() for _ in range(STILL_LOOKS + 1)] == [False] * STILL_LOOKS + [True]
    assert STOOD_STILL.exit_code == STALLED


def test_one_that_wants_a_cpu_is_waited_for_however_long(tmp_path: Path) -> None:
    with running(SPINNING) as process:
        looks = Looks(process, tmp_path / "log")
        assert not any(looks.look() for _ in range(MANY_LOOKS))


def test_a_program_that_it_waits_for_is_named_and_forgotten_once_it_answers(tmp_path: Path) -> None:
    code = f"subprocess.run(['cat'], cwd={str(tmp_path)!r}); print('answered', flush=True); "
    with running(f"import subprocess, sys; {code}sys.stdin.read()") as process:
        wait_for(lambda: any(p.parent == process.pid for p in list_processes()), "its child")
        looks = Looks(process, tmp_path / "log")
        said = []
        for _ in range(3):
            looks.look()
            said.append(looks.watch.obstacle)
        assert said == ["", "", f"`cat` has not answered for 10 s in {tmp_path}"]
        for _ in range(STILL_LOOKS):
            looks.look()
        ending = looks.watch.judge(looks.now)
        assert ending
        assert ending.exit_code == STALLED
        assert ending.reason == f"{STOOD_STILL.reason}; {said[-1]}"
        [child] = [p.id for p in list_processes() if p.parent == process.pid]
        os.kill(child, signal.SIGKILL)
        assert process.stdout
        process.stdout.readline()
        looks.look()
        assert not looks.watch.obstacle


def test_its_children_count(tmp_path: Path) -> None:
    with running(PARENT) as process:
        looks = Looks(process, tmp_path / "log")
        assert not any(looks.look() for _ in range(MANY_LOOKS))


def test_one_that_reads_files_is_waited_for(tmp_path: Path) -> None:
    with running(READER) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        looks = Looks(process, tmp_path / "log")
        for number in range(2 * STILL_LOOKS):
            if number % (STILL_LOOKS - 1) == 0:
                process.stdin.write("\n")
                process.stdin.flush()
                process.stdout.readline()
            assert not looks.look()


def test_one_that_logs_is_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running("import sys; sys.stdin.read()") as process:
        looks = Looks(process, log)
        for number in range(2 * STILL_LOOKS):
            if number % (STILL_LOOKS - 1) == 0:
                with log.open("a") as file:
                    file.write("another line\n")
            assert not looks.look()


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

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self.watch = CoreWatch(process.pid, str(log))
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

    def look(self, times: int, seconds: float = LOOK_SECONDS) -> Ending | None:
        """Look so often; return what the last look says."""
        for _ in range(times):
            self.now += seconds
            said = self.watch.judge(self.now)
        return said


def test_a_core_that_comes_late_is_no_dead_one(tmp_path: Path) -> None:
    with running(WITH_CORE) as process:
        agent = Agent(process, tmp_path / "log")
        assert agent.look(2 * MISSING_LOOKS) is None
        agent.tell("start")
        assert agent.look(1, seconds=0.5) is None  # between two looks
        agent.tell("end")
        assert agent.look(MISSING_LOOKS - 1) is None
        assert agent.look(1) is LOST


def test_the_core_that_ends_after_a_run_is_none_that_died(tmp_path: Path) -> None:
    with running(WITH_CORE) as process:
        agent = Agent(process, tmp_path / "log")
        agent.tell("start")
        assert agent.look(1) is None
        agent.watch.reset()  # it has a run
        assert agent.look(1) is None  # the run has ended
        agent.tell("end")
        assert agent.look(2 * MISSING_LOOKS) is None
        agent.tell("start")
        assert agent.look(1) is None
        agent.tell("end")
        assert agent.look(MISSING_LOOKS) is LOST
