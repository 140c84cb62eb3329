"""The promise: every configuration finished, exactly once, whatever is killed.

`make test` has kills, lost replies and fatal answers, several in a sweep; `make test-full` has each
alone, random ones, and the other kinds of faults.
`pytest tests/faults/test_promise.py -k "backend"` runs the faults of one kind.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.faults import trainers
from tests.faults.chaos import KINDS, Chaos
from tests.faults.disk import small_disk, unwritable
from tests.faults.grids import FEW, SMALL, WHOLE, Grid
from tests.faults.processes import find_processes
from tests.faults.proxy import Fault
from tests.faults.scenario import Scenario
from tests.faults.strikes import FIRST_STEP, Blow, kill_each_supervisor, strike

pytestmark = pytest.mark.slow

SEEDS = range(20)
# Two agents with a run each 5 s to 10 s, and as much again for what is done twice.
SECONDS_A_RUN = 12.0


@contextlib.contextmanager
def begin(folder: Path, grid: Grid = FEW, **settings: object) -> Iterator[Scenario]:
    """Start a scenario and wait until a trainer waits during its run."""
    with Scenario(folder, grid=grid, hold=FIRST_STEP, **settings) as scenario:  # type: ignore[arg-type]
        scenario.wait_for_step(FIRST_STEP)
        yield scenario


def finish(scenario: Scenario) -> None:
    """Wait for the end of `up`, which must be a good one, and check the promise."""
    scenario.steps.hold_at(None)
    code = scenario.wait_for_end(90.0 + SECONDS_A_RUN * len(scenario.grid.configurations))
    scenario.prove()
    assert code == 0, scenario.ends[-1]


def blows(*words: str) -> list[Blow]:
    """Return blows from their names: `SIGKILL-trainer`."""
    pairs = [word.split("-", 1) for word in words]
    return [Blow(kind, signal.Signals[name]) for name, kind in pairs]  # type: ignore[arg-type]


TOGETHER = [
    (
        *("SIGKILL-trainer", "SIGKILL-wandb-core", "SIGKILL-warm-parent"),
        *("SIGKILL-agent", "SIGKILL-supervisor"),
    ),
    ("SIGKILL-backend", "SIGKILL-up", "SIGTERM-backend", "SIGTERM-up"),
    ("SIGSTOP-wandb-core", "SIGSTOP-backend", "SIGINT-supervisor"),
]
# Many of a kind in one sweep; what does the same to a process of a kind as SIGKILL does included.
ALONE = [
    (f"{name}-{kind}",) * 3
    for name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGSTOP")
    for kind in (*KINDS, "up")
]


@pytest.mark.parametrize(
    "names",
    [*TOGETHER, *(pytest.param(names, marks=pytest.mark.full) for names in ALONE)],
    ids="+".join,
)
def test_processes_are_struck_in_the_middle_of_a_run(tmp_path: Path, names: Sequence[str]) -> None:
    with begin(tmp_path) as scenario:
        strike(scenario, blows(*names))
        finish(scenario)
        struck = set(names)
        if not struck & {"SIGTERM-supervisor", "SIGINT-supervisor"}:  # asked to stop
            assert "interrupted" not in scenario.causes, scenario.describe()
        if struck <= {f"SIGKILL-{kind}" for kind in ("trainer", "agent", "supervisor")}:
            # A kill may also hit another run, which is just beginning or ending.
            allowed = {"finished", "delivered", "signal", "never started", "lost reply"}
            assert scenario.causes <= allowed, scenario.describe()
        if struck & {f"SIGKILL-{kind}" for kind in ("trainer", "agent", "supervisor")}:
            # On a slow machine a run may be over before a new supervisor finds it.
            begun = [line["step"] for line in scenario.steps.list_events("begin")]
            again = len(begun) > len(scenario.grid.configurations)
            assert not again or any(step > FIRST_STEP for step in begun), scenario.describe()


@pytest.mark.full
@pytest.mark.parametrize("seed", SEEDS)
def test_any_process_is_killed_for_many_seeds(tmp_path: Path, seed: int) -> None:
    signals = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP]
    with begin(tmp_path, WHOLE, seed=seed, replicas=3) as scenario:
        scenario.steps.hold_at(None)
        with Chaos(scenario.state, seed, [*KINDS, "up"], signals, kills=8) as chaos:
            scenario.wait_for(lambda: chaos.done or scenario.ended, "the kills", 90)
        for kill in chaos.journal:
            scenario.note(str(kill))
        assert chaos.journal, "nothing was killed"
        if scenario.ended:  # the backend may have been killed after that
            scenario.run("backend", "up")
        finish(scenario)


PASSING = [
    Fault("delay", delay_seconds=1.5, probability=0.08),
    Fault("refuse", probability=0.08),
    Fault("cut", probability=0.08),
    Fault("lose_reply", probability=0.08),
    Fault("status", status=429, retry_after_seconds=2, probability=0.08),
    Fault("status", status=500, probability=0.08),
    Fault("status", status=503, probability=0.08),
]
# The SDK gives a stream, a run or an agent up for good on these.
FATAL_STREAM = [
    Fault("status", "^file_stream ", status=401, count=1),
    Fault("status", "^file_stream ", status=404, count=1),
    Fault("status", "^file_stream ", status=409, count=1),
]
FATAL_AGENT = [
    Fault("status", "^UpsertBucket ", status=409, count=2),
    Fault("status", "^UpsertBucket ", status=401, count=2),
    Fault("status", "^Heartbeat ", status=404, count=2),
    Fault("status", "^Heartbeat ", status=401, count=2),
]
LOST = [
    Fault("lose_reply", f"^{operation} ", count=2)
    for operation in ("Heartbeat", "CreateAgent", "UpsertSweep", "UpsertBucket")
]
BY_ITSELF = [
    *(replace(fault, probability=0.15) for fault in PASSING),
    *(replace(fault, count=4) for fault in FATAL_STREAM),
    *FATAL_AGENT,  # a run that is refused twice has failed
]


def name_of(fault: Fault) -> str:
    """Return a test's name for a fault."""
    where = fault.match.strip("^ ")
    what = str(fault.status) if fault.kind == "status" else fault.kind
    return f"{where}-{what}" if where else what


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(FATAL_AGENT, id="fatal to a run or an agent"),
        pytest.param(PASSING, id="passing", marks=pytest.mark.full),
        *(pytest.param([f], id=name_of(f), marks=pytest.mark.full) for f in BY_ITSELF),
    ],
)
def test_the_way_to_the_server_is_bad(tmp_path: Path, faults: list[Fault]) -> None:
    grid = SMALL if faults[0].count is None else FEW
    # A run whose `wandb.init` is cut off has failed by itself; by chance that is so twice in a row.
    with begin(tmp_path, grid, proxied=True, retries=3) as scenario:
        scenario.proxy.set_faults(*faults)
        finish(scenario)
        for fault in faults:
            assert scenario.proxy.happened(fault), f"{name_of(fault)} never happened"


def test_replies_and_streams_are_lost(tmp_path: Path) -> None:
    with Scenario(tmp_path, grid=FEW, hold=FIRST_STEP, proxied=True) as scenario:
        scenario.proxy.set_faults(*LOST)
        scenario.wait_for_step(FIRST_STEP)
        scenario.proxy.set_faults(*LOST, *FATAL_STREAM)
        finish(scenario)
        for fault in (*LOST, *FATAL_STREAM):
            assert scenario.proxy.happened(fault), f"{name_of(fault)} never happened"


@pytest.mark.full
def test_after_an_outage_work_flows_within_ten_seconds(tmp_path: Path) -> None:
    with begin(tmp_path, proxied=True) as scenario:
        scenario.proxy.go_away()
        scenario.steps.hold_at(FIRST_STEP * 2)
        scenario.wait_for_step(FIRST_STEP * 2)  # rows that nobody takes
        time.sleep(12)  # the outage itself is a time
        back = time.time()
        scenario.proxy.come_back()
        scenario.wait_for(
            lambda: [p for p in scenario.proxy.passages("^Heartbeat ") if p.at > back],
            "a heartbeat after the outage",
        )
        finish(scenario)
        for operation in ("Heartbeat", "file_stream"):
            passed = scenario.proxy.passages(f"^{operation} ")
            late = min(p.at for p in passed if p.at > back) - back
            assert late < 10, f"{operation} came {late:.0f} s after the server was back"


@pytest.mark.kube  # root
@pytest.mark.parametrize(
    ("whose", "mebibytes", "seconds"),
    [("backend", 16, 6), pytest.param("agents", 64, 12, marks=pytest.mark.full)],
)
def test_a_disk_is_full_for_a_while(
    tmp_path: Path, whose: str, mebibytes: int, seconds: float
) -> None:
    with small_disk(tmp_path / "state" / whose, mebibytes) as disk, begin(tmp_path) as scenario:
        disk.fill()
        scenario.steps.hold_at(None)  # the runs go on, and log into a full disk
        time.sleep(seconds)  # the full disk itself is a time
        disk.free()
        finish(scenario)


@pytest.mark.full
@pytest.mark.parametrize("whose", ["agents", ""])
def test_a_folder_cannot_be_written_for_a_while(tmp_path: Path, whose: str) -> None:
    """One agent begins its next run in it, one is to be started in it again."""
    with begin(tmp_path) as scenario:
        with unwritable(scenario.state / whose):
            [supervisor, *_] = [o for o in find_processes(scenario.state) if o.kind == "supervisor"]
            supervisor.process.kill()
            scenario.steps.hold_at(None)
            said = f"waiting: {scenario.state / 'agents'} cannot be written now: "
            scenario.wait_for(lambda: said in scenario.said, "the reason of the wait")
            if whose:  # else the backend cannot write either, and wandb waits for it in the run
                waiting = "cannot be written now"
                logs = list(scenario.state.glob("agents/*/log"))
                scenario.wait_for(lambda: any(waiting in one.read_text() for one in logs), "a log")
            time.sleep(5)  # more tries to start an agent than may fail in a row
        finish(scenario)
        assert scenario.ends[-1].err.count(said) == 1, scenario.describe()
        assert len(scenario.ends) == 1


@pytest.mark.full
def test_the_servers_clock_is_moved(tmp_path: Path) -> None:
    with begin(tmp_path) as scenario:
        for step, seconds in ((FIRST_STEP, 3600), (2 * FIRST_STEP, -3600)):
            scenario.wait_for_step(step)
            scenario.clock.move(seconds)
            # Started again at the new time, in the middle of everything.
            for backend in [o for o in find_processes(scenario.state) if o.kind == "backend"]:
                backend.process.kill()
            scenario.steps.hold_at(step + FIRST_STEP)
        finish(scenario)


@pytest.mark.full
def test_the_whole_machine_dies(tmp_path: Path) -> None:
    with begin(tmp_path) as scenario:
        with scenario.paused():
            for one in find_processes(scenario.state):
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.process.kill()
        finish(scenario)
        begun = [line["step"] for line in scenario.steps.list_events("begin")]
        assert FIRST_STEP + 1 in begun, scenario.describe()


@pytest.mark.full
def test_unhelpful_trainers(tmp_path: Path) -> None:
    """One of each at once: they go on until a successor ends them, which they make hard.

    A supervisor that is asked to stop meets them in tests/agent/test_requeue.py.
    """
    kinds = Grid((0.1,), (1,), [*trainers.UNHELPFUL], (0.9,))
    script = trainers.write_unhelpful()
    with begin(tmp_path, kinds, script=script, replicas=len(kinds.names)) as scenario:
        kill_each_supervisor(scenario, kinds.names)
        finish(scenario)
        assert not scenario.steps.list_ghosts(), "a dead attempt went on writing"
        assert scenario.steps.list_events("child")
