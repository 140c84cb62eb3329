"""Runs that end by themselves without a word to W&B, and runs that are always killed."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from deployer.agent.runs.delivery import UNFINISHED_EXIT_CODE
from deployer.agent.runs.local_runs import has_left_its_core
from deployer.agent.settings import WARM_VARIABLE
from deployer.backend.scheduling.lifecycle import STALLED_KILLS
from deployer.model import Run, SweepPath
from deployer.wandb_api.operations import create_sweep
from tests.agent.conftest import Bench, wait_for
from tests.agent.trainers import ENDING, ENDING_SWEEP, STARTING

pytestmark = pytest.mark.slow


# How a trainer may end, and the exit code of its run.
FAILING = {"os._exit(3)": 3, "os._exit(0)": 0, "os.kill(os.getpid(), 11)": 139}
KILLED = "os.kill(os.getpid(), 9)"
CORELESS = "lose_core()"


@pytest.mark.parametrize(
    ("warm", "failing", "killed"),
    [
        ("1", ["os._exit(3)"], []),
        pytest.param("0", [*FAILING], [], marks=pytest.mark.full),
        pytest.param("1", [*FAILING], [KILLED], marks=pytest.mark.full),
    ],
    ids=["warm", "cold-all", "warm-all"],
)
def test_why_runs_have_ended_that_say_no_word_to_wandb(
    bench: Bench, warm: str, failing: Sequence[str], killed: Sequence[str]
) -> None:
    # The first ends well: a sweep is over when three have failed and none has finished.
    (bench.folder / "train.py").write_text(ENDING)
    ends = ["run.finish()", *failing, CORELESS, *killed]
    path = create_ending_sweep(bench, ends)
    code, output = bench.start_with_own_key(path, **{WARM_VARIABLE: warm}).wait()
    assert code in (0, 3), output
    runs = {str(run.config["end"]): run for run in bench.runs(path)}
    for end in failing:
        run, code = runs[end], FAILING[end]
        assert (run.state, run.exit_code) == ("failed", code or UNFINISHED_EXIT_CODE)
        seen = [(attempt.cause, attempt.exit_code) for attempt in run.attempts]
        assert seen == [("own failure", code)] * 2
    run = runs[CORELESS]
    assert run.state == "finished"
    assert [attempt.cause for attempt in run.attempts] == ["signal", "finished"]
    for end in killed:
        check_given_up(runs[end])


def create_ending_sweep(
    bench: Bench, ends: Sequence[str], retries: int = 1, more: str = ""
) -> SweepPath:
    """Make a sweep of runs that end in these ways at each attempt."""
    name = f"agent-{uuid.uuid4().hex[:8]}"
    text = ENDING_SWEEP.format(ends=json.dumps(ends), retries=retries) + more
    path, _ = create_sweep(bench.client, text, bench.backend.entity, name, uuid.uuid4().hex)
    return path


def check_given_up(run: Run) -> None:
    """Hold a run to what is done with one that is killed again and again at the same step."""
    assert run.state == "failed"
    causes = [attempt.cause for attempt in run.attempts]
    assert set(causes) == {"signal"}
    assert STALLED_KILLS <= len(causes) <= STALLED_KILLS + 3  # the last rows may not arrive
    assert {attempt.exit_code for attempt in run.attempts} == {137}


# How a trainer may end before `wandb.init`: the cause, and its starts with one retry.
GOOD = "import wandb; wandb.init().finish()"
FEW = {
    "sys.exit(0)": ("no run", 1),
    "import argparse; argparse.ArgumentParser().parse_args()": ("usage error", 1),
    "import wandb; wandb.login(key='x' * 40)": ("authentication error", 1),
    "import no_such_module": ("never started", 2),
    "os.kill(os.getpid(), signal.SIGKILL)": ("signal", 2),
}
ALL = {
    **FEW,
    "sys.exit(127)": ("missing program", 1),
    "os.kill(os.getpid(), signal.SIGSEGV)": ("never started", 2),
}


@pytest.mark.parametrize(
    ("warm", "retries", "unstarted"),
    [
        ("1", 1, FEW),
        pytest.param("0", 0, ALL, marks=pytest.mark.full),
        pytest.param("1", 1, ALL, marks=pytest.mark.full),
    ],
    ids=["warm-1", "cold-0-all", "warm-1-all"],
)
def test_a_trainer_that_ends_before_wandb_init_is_not_started_in_vain(
    bench: Bench, warm: str, retries: int, unstarted: Mapping[str, tuple[str, int]]
) -> None:
    (bench.folder / "train.py").write_text(STARTING)
    path = create_ending_sweep(bench, [GOOD, *unstarted], retries)
    first = bench.start_with_own_key(path, **{WARM_VARIABLE: warm})
    # A sweep is over when three have failed and none has finished.
    wait_for(lambda: any(run.state == "finished" for run in bench.runs(path)), "the good run")
    second = bench.start_with_own_key(path, folder="agent-2", **{WARM_VARIABLE: warm})
    for agent in (first, second):
        code, output = agent.wait()
        assert code in (0, 3), output
    starts = Counter((bench.folder / "starts").read_text().splitlines())
    assert starts == {GOOD: 1, **{end: min(n, 1 + retries) for end, (_, n) in unstarted.items()}}
    for run in bench.runs(path):
        if run.state != "finished":
            cause, _ = unstarted[str(run.config["end"])]
            # Of the last kill the agent may speak before its supervisor does.
            known = {cause, "never started"} if cause == "signal" else {cause}
            assert {attempt.cause for attempt in run.attempts} <= known
            assert len(run.attempts) == starts[str(run.config["end"])]


RESUMED = """
import wandb
if os.path.exists("was-here"):
    sys.exit(0)
open("was-here", "w").close()
wandb.init().log({"loss": 1})
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.full
def test_a_resumed_trainer_that_finds_nothing_to_do_is_not_started_again(bench: Bench) -> None:
    (bench.folder / "train.py").write_text(STARTING)
    path = create_ending_sweep(bench, [RESUMED])
    code, output = bench.start_with_own_key(path).wait()
    assert code == 0, output
    assert bench.causes(path) == ["signal", "no run"]


@pytest.mark.parametrize(
    "command",
    [
        "[no-such-program]",
        *(pytest.param(c, marks=pytest.mark.full) for c in ("[./train.py]", "[python, gone.py]")),
    ],
)
def test_a_command_that_cannot_be_started_is_tried_once(bench: Bench, command: str) -> None:
    path = create_ending_sweep(bench, ["x"], 1, f"command: {command}\n")
    code, output = bench.start_with_own_key(path).wait()
    assert code == 0, output
    assert bench.causes(path) == ["missing program"]
    [run] = bench.runs(path)
    assert (run.state, run.attempts[0].exit_code in (2, 126, 127)) == ("failed", True)


STARTED = '{"msg":"server: will exit if parent process dies","ppid":123}\n'
LEFT = '{"msg":"server: parent process exited, terminating service process"}\n'
TOLD = '{"msg":"handleInformTeardown: server teardown initiated"}\n'


@pytest.mark.parametrize(
    ("log", "living", "left"),
    [
        (STARTED + LEFT, 0, True),
        (STARTED, 0, False),
        (STARTED + STARTED + LEFT, 1, True),
        (STARTED + STARTED + LEFT + TOLD, 0, True),
        (STARTED + STARTED + LEFT, 0, False),
        (STARTED + STARTED + TOLD, 0, False),
        (STARTED + STARTED + LEFT + TOLD + STARTED + STARTED, 1, False),
        ("", 0, False),
    ],
    ids=[
        *("left", "killed", "left-beside-an-agents", "told", "one-killed", "killed-beside-one"),
        *("killed-beside-an-agents", "other-wandb"),
    ],
)
def test_cores_that_share_a_log_are_told_apart(
    log: str, living: int, left: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "agent-1" / "wandb" / "run-20260101_000000-r1"
    (folder / "logs").mkdir(parents=True)
    (folder / "run-r1.wandb").touch()
    shared = tmp_path / "core-debug-20260101_000000.log"
    shared.write_text(log)
    (folder / "logs" / "debug-core.log").symlink_to(shared)
    with shared.open("a") as written:
        core = ["/of/a/package/wandb-core"]
        cores = [
            subprocess.Popen(core, executable="/bin/cat", stdin=subprocess.PIPE, stdout=written)
            for _ in range(living)
        ]
    try:
        assert has_left_its_core(str(tmp_path), "r1") == left
    finally:
        for one in cores:
            one.communicate()
