"""The promise: every configuration finished, exactly once, whatever is killed.

`pytest tests/faults/test_promise.py -k "killed and backend"` runs one fault alone.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from tests.faults import trainers
from tests.faults.chaos import KINDS, Chaos
from tests.faults.disk import small_disk
from tests.faults.grids import FEW, ONE, SMALL, WHOLE, Grid
from tests.faults.processes import Kind, find_processes
from tests.faults.proxy import Fault
from tests.faults.scenario import Scenario

pytestmark = pytest.mark.slow

SEEDS = range(20)
# Three agents with a run each 5 s to 10 s, and as much again for what is done twice.
SECONDS_A_RUN = 8.0


@contextlib.contextmanager
def begin(folder: Path, grid: Grid = SMALL, **settings: object) -> Iterator[Scenario]:
    """Start a scenario and wait until its first run trains."""
    with Scenario(folder, grid=grid, **settings) as scenario:  # type: ignore[arg-type]
        scenario.wait_for_runs(1)
        yield scenario


def finish(scenario: Scenario) -> None:
    """Wait for the end of `up`, which must be a good one, and check the promise."""
    code = scenario.wait_for_end(90.0 + SECONDS_A_RUN * len(scenario.grid.configurations))
    scenario.prove()
    assert code == 0, scenario.ends[-1]


def hit(
    scenario: Scenario, kinds: Sequence[Kind], signals: Sequence[signal.Signals], kills: int
) -> None:
    """Kill while the sweep lasts, then see it through."""
    with Chaos(scenario.state, scenario.seed, kinds, signals, kills) as chaos:
        scenario.wait_for(lambda: chaos.done or scenario.ended, "the kills", 90)
    for kill in chaos.journal:
        scenario.note(str(kill))
    assert chaos.journal, "nothing was killed"
    finish(scenario)


def test_without_any_fault(tmp_path: Path) -> None:
    """The control: what fails here is not the faults' doing."""
    with begin(tmp_path, proxied=True) as scenario:
        finish(scenario)
        assert not [p for p in scenario.proxy.journal if p.status != 200]


def victims() -> list[object]:
    """Return each kind killed and ended; what dies of both alike is killed alone in `make test`."""
    alike = ("trainer", "wandb-core", "agent")
    killed = [pytest.param(signal.SIGKILL, kind, id=f"SIGKILL-{kind}") for kind in (*KINDS, "up")]
    ended = [
        pytest.param(
            signal.SIGTERM,
            kind,
            id=f"SIGTERM-{kind}",
            marks=[pytest.mark.full] if kind in alike else [],
        )
        for kind in (*KINDS, "up")
    ]
    return [*killed, *ended]


@pytest.mark.parametrize(("number", "kind"), victims())
def test_one_kind_is_killed(tmp_path: Path, kind: Kind, number: signal.Signals) -> None:
    with begin(tmp_path) as scenario:
        hit(scenario, [kind], [number], kills=4)
        if (kind, number) != ("supervisor", signal.SIGTERM):  # the only one that was asked to stop
            assert "interrupted" not in scenario.causes, scenario.describe()
        if kind in ("trainer", "agent", "supervisor"):
            # A kill may hit during a run, before `wandb.init`, or between two runs.
            allowed = {"finished", "interrupted", "signal", "never started", "lost reply"}
            assert scenario.causes <= allowed, scenario.describe()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda n: n.name)
def test_any_process_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    with begin(tmp_path, WHOLE, seed=1) as scenario:
        hit(scenario, KINDS, [number], kills=6)


def test_processes_are_interrupted_and_held(tmp_path: Path) -> None:
    with begin(tmp_path, seed=2) as scenario:
        hit(scenario, [*KINDS, "up"], [signal.SIGINT, signal.SIGSTOP], kills=4)


@pytest.mark.full
@pytest.mark.parametrize("seed", SEEDS)
def test_any_process_is_killed_for_many_seeds(tmp_path: Path, seed: int) -> None:
    signals = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP]
    with begin(tmp_path, WHOLE, seed=seed) as scenario:
        hit(scenario, [*KINDS, "up"], signals, kills=8)


PASSING = [
    Fault("delay", delay_seconds=1.5, probability=0.2),
    Fault("refuse", probability=0.1),
    Fault("cut", probability=0.1),
    Fault("lose_reply", probability=0.1),
    Fault("status", status=429, retry_after_seconds=2, probability=0.1),
    Fault("status", status=500, probability=0.1),
    Fault("status", status=503, probability=0.1),
]
# The SDK gives a stream, a run or an agent up for good on these.
FATAL = [
    Fault("status", "^file_stream ", status=401, count=4),
    Fault("status", "^file_stream ", status=404, count=4),
    Fault("status", "^file_stream ", status=409, count=4),
    Fault("status", "^UpsertBucket ", status=409, count=4),
    Fault("status", "^UpsertBucket ", status=401, count=4),
    Fault("status", "^Heartbeat ", status=404, count=4),
    Fault("status", "^Heartbeat ", status=401, count=4),
]


def name_of(fault: Fault) -> str:
    """Return a test's name for a fault."""
    where = fault.match.strip("^ ")
    what = str(fault.status) if fault.kind == "status" else fault.kind
    return f"{where}-{what}" if where else what


@pytest.mark.parametrize("fault", [*PASSING, *FATAL], ids=name_of)
def test_the_way_to_the_server_is_bad(tmp_path: Path, fault: Fault) -> None:
    with begin(tmp_path, FEW if fault in FATAL else SMALL, proxied=True) as scenario:
        scenario.proxy.set_faults(fault)
        scenario.wait_for(
            lambda: len(scenario.proxy.passages(fault=fault.kind)) >= 4 or scenario.ended,
            f"the fault {name_of(fault)}",
        )
        finish(scenario)
        assert scenario.proxy.passages(fault=fault.kind)


@pytest.mark.parametrize("operation", ["Heartbeat", "CreateAgent", "UpsertSweep", "UpsertBucket"])
def test_a_reply_is_lost(tmp_path: Path, operation: str) -> None:
    with Scenario(tmp_path, grid=FEW, proxied=True) as scenario:
        scenario.proxy.set_faults(Fault("lose_reply", f"^{operation} ", count=3))
        finish(scenario)
        assert scenario.proxy.passages(operation, "lose_reply")


def test_after_an_outage_work_flows_within_ten_seconds(tmp_path: Path) -> None:
    with begin(tmp_path, proxied=True) as scenario:
        scenario.proxy.go_away()
        time.sleep(15)  # the outage itself is a time
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
def test_the_backends_disk_is_full_for_a_while(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "state" / "backend", 16) as disk,
        begin(tmp_path) as scenario,
    ):
        disk.fill()
        time.sleep(12)  # the full disk itself is a time
        disk.free()
        finish(scenario)


@pytest.mark.kube  # root
def test_the_agents_disk_is_full_for_a_while(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "state" / "agents", 64) as disk,
        begin(tmp_path) as scenario,
    ):
        disk.fill()
        time.sleep(12)  # the full disk itself is a time
        disk.free()
        finish(scenario)


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_the_servers_clock_is_moved(tmp_path: Path, seconds: int) -> None:
    with begin(tmp_path, FEW) as scenario:
        scenario.clock.move(seconds)
        # Started again at the new time, in the middle of everything.
        [backend] = [o for o in find_processes(scenario.state) if o.kind == "backend"]
        backend.process.kill()
        finish(scenario)


def test_the_whole_machine_dies(tmp_path: Path) -> None:
    with begin(tmp_path) as scenario:
        scenario.wait_for_runs(4)
        with scenario.paused():
            for one in find_processes(scenario.state):
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.process.kill()
        finish(scenario)


SCRIPTS = {
    "deaf": trainers.DEAF,
    "quitting": trainers.QUITTING,
    "forking": trainers.FORKING,
    "not-resuming": trainers.NOT_RESUMING,
}


# The trainer of a killed supervisor goes on until a successor ends it, which these two make hard.
UNHELPFUL = [
    *((signal.SIGTERM, script) for script in SCRIPTS),
    *((signal.SIGKILL, script) for script in ("deaf", "forking")),
    *(
        pytest.param(signal.SIGKILL, script, marks=pytest.mark.full)
        for script in ("quitting", "not-resuming")
    ),
]


@pytest.mark.parametrize(
    ("number", "script"), UNHELPFUL, ids=lambda v: v.name if isinstance(v, signal.Signals) else v
)
def test_an_unhelpful_trainer(tmp_path: Path, number: signal.Signals, script: str) -> None:
    with begin(tmp_path, script=SCRIPTS[script]) as scenario:
        hit(scenario, ["supervisor"], [number], kills=4)


def test_a_run_that_fails_by_itself_is_tried_again(tmp_path: Path) -> None:
    script = trainers.FAILING_ONCE
    with Scenario(tmp_path, grid=ONE, script=script, replicas=1) as scenario:
        finish(scenario)
        events = [json.loads(line)["event"] for line in trace(scenario)]
        assert (events.count("failure"), events.count("end")) == (1, 1)


def trace(scenario: Scenario) -> list[str]:
    """Return the lines that the trainers have written."""
    return (scenario.project / "trace.jsonl").read_text().splitlines()
