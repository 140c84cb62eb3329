"""Scripts that know no W&B: their runs have metrics, a console, and their own exit codes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from deployer.agent.settings import METRICS_VARIABLE, WARM_VARIABLE
from deployer.model import SweepPath
from deployer.wandb_api.operations import create_sweep
from tests.agent.conftest import Bench
from tests.faults.proof import RecordReader

pytestmark = pytest.mark.slow(seconds=60)

SECONDS = 400.0  # several runs, each of which loads the SDK
SWEEP = """
program: train.py
method: grid
metric: {name: loss, goal: minimize}
retries: 1
"""
STDOUT = {"step": "epoch"}

# Prints as foreign scripts do: through logging to stderr, with \r, in colours.
PRINTING = """
import argparse, logging, os, pathlib, signal, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--loss", type=float)
loss = parser.parse_args().loss
logging.basicConfig(level=logging.INFO)
assert "wandb" not in sys.modules
folder = pathlib.Path(os.environ["DEPLOYER_CHECKPOINT_DIR"])
first = len(list(folder.iterdir()))
for epoch in range(max(0, first - 1), 4):
    logging.info("epoch=%d lr=0.1", epoch)
    print(f"\\rloss={loss + epoch}", end="")
    print(end="\\r", flush=True)
    (folder / str(epoch)).touch()
    if loss == 2 and epoch == 1 and first == 0:
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
while loss == 9:
    print("at work", flush=True)
    time.sleep(1)
print("bye")
if loss == 5:
    sys.exit(5)
"""


def create(bench: Bench, script: str, values: list[float], more: str = "") -> SweepPath:
    """Make a sweep of a script, with a run for each value of its flag."""
    (bench.folder / "train.py").write_text(script)
    text = f"{SWEEP}{more}\nparameters: {{loss: {{values: {values}}}}}\n"
    name = f"metrics-{uuid.uuid4().hex[:8]}"
    path, _ = create_sweep(bench.client, text, bench.backend.entity, name, uuid.uuid4().hex)
    return path


def run(bench: Bench, path: SweepPath, metrics: Mapping[str, Any]) -> str:
    """Run a sweep with one agent; return its log."""
    told = {METRICS_VARIABLE: json.dumps(metrics), WARM_VARIABLE: "1"}
    code, output = bench.start_with_own_key(path, **told).wait(SECONDS)
    assert code == 0, output
    return output


def read_rows(bench: Bench, path: SweepPath, *names: str) -> dict[float, list[list[Any]]]:
    """Return the values of these names in the rows of each run, by its flag."""
    runs = RecordReader(bench.backend.url, bench.backend.key).read_runs(str(path))
    return {
        run.config["loss"]: [[row.get(name) for name in names] for row in run.rows] for run in runs
    }


@pytest.mark.full
def test_what_a_script_prints_is_its_metrics_whatever_ends_it(bench: Bench) -> None:
    more = "early_terminate: {type: hyperband, min_iter: 4, eta: 3}"
    path = create(bench, PRINTING, [1, 9, 2, 5], more)
    log = run(bench, path, STDOUT)
    runs = {one.config["loss"]: one for one in bench.runs(path)}
    ends = {
        loss: (one.state, [(end.cause, end.exit_code) for end in one.attempts])
        for loss, one in runs.items()
    }
    assert ends == {
        1: ("finished", [("finished", 0)]),
        2: ("finished", [("signal", 137), ("finished", 0)]),
        9: ("killed", [("stopped", 130)]),
        5: ("failed", [("own failure", 5)] * 2),
    }
    rows = read_rows(bench, path, "epoch", "loss", "_step", "lr")
    for loss in (1, 2, 9):
        assert rows[loss] == [[n, loss + n, n, None] for n in range(4)]
    assert "runs start cold: a wrapper reads its metrics" in log
    assert "lr=0.1" in log
    assert "\nloss=4.0\nbye\n" in log  # each \r was read as a line's end
    assert any("bye" in line for line in list_console(bench, path, runs[1].run_id))


CONSOLE = """
query Console($entity: String, $project: String!, $run: String!) {
  project(name: $project, entityName: $entity) { run(name: $run) {
    logLines { edges { node { line } } } } } }
"""


def list_console(bench: Bench, path: SweepPath, run_id: str) -> list[str]:
    """Return the lines of a run's console as the server holds them."""
    entity, project, _ = str(path).split("/")
    reader = RecordReader(bench.backend.url, bench.backend.key)
    found = reader.ask(CONSOLE, entity=entity, project=project, run=run_id)["project"]["run"]
    return [edge["node"]["line"].rstrip() for edge in found["logLines"]["edges"]]


# Prints as a program that was never told of a log.
PLAIN = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--loss", type=float)
loss = parser.parse_args().loss
for epoch in range(3):
    print(f"epoch={epoch} loss={loss + epoch}")
"""


def test_the_metrics_of_a_script(bench: Bench) -> None:
    path = create(bench, PLAIN, [1])
    run(bench, path, STDOUT)
    rows = [[1 + epoch, epoch] for epoch in range(3)]
    assert read_rows(bench, path, "loss", "epoch") == {1: rows}


# Has printed its metric before it opens its run, and prints none behind it.
OWN = """
import argparse, time
parser = argparse.ArgumentParser()
parser.add_argument("--loss", type=float)
loss = parser.parse_args().loss
print("loss=100", flush=True)
if loss == 2:
    time.sleep(5)
import wandb
with wandb.init() as run:
    run.log({"loss": loss})
    print("loss=200")
"""


@pytest.mark.full
def test_a_script_that_opens_its_run_has_one_run(bench: Bench) -> None:
    """As where one folder has scripts of both kinds."""
    path = create(bench, OWN, [1, 2])
    log = run(bench, path, STDOUT)
    assert {one.state for one in bench.runs(path)} == {"finished"}
    assert read_rows(bench, path, "loss", "_step") == {1: [[1, 0]], 2: [[2, 0]]}
    assert "Traceback" not in log


TENSORBOARD = """
import argparse, wandb
from torch.utils.tensorboard import SummaryWriter
parser = argparse.ArgumentParser()
parser.add_argument("--loss", type=float)
loss = parser.parse_args().loss
with wandb.init(sync_tensorboard=True), SummaryWriter("logs") as writer:
    for step in range(3):
        writer.add_scalar("loss", loss + step, 10 * step)
"""


@pytest.mark.full
def test_what_tensorboard_writes_is_logged_by_the_sdk(bench: Bench) -> None:
    path = create(bench, TENSORBOARD, [1])
    code, output = bench.start_with_own_key(path).wait(SECONDS)
    assert code == 0, output
    rows = [[1, 0], [2, 10], [3, 20]]
    assert read_rows(bench, path, "loss", "global_step") == {1: rows}


# Ends before there is a run to open, or without a metric in it.
ENDING = """
import argparse, os, signal, sys
parser = argparse.ArgumentParser()
parser.add_argument("--loss", type=float, choices=[1, 3])
loss = parser.parse_args().loss
print("nothing to read")
if loss == 3:
    os.kill(os.getpid(), signal.SIGSEGV)
"""


@pytest.mark.full
def test_how_scripts_end_without_a_metric(bench: Bench) -> None:
    path = create(bench, ENDING, [1, 2, 3])
    log = run(bench, path, STDOUT)
    runs = {one.config["loss"]: one for one in bench.runs(path)}
    ends = {loss: [(e.cause, e.exit_code) for e in one.attempts] for loss, one in runs.items()}
    assert ends == {
        1: [("finished", 0)],
        2: [("usage error", 2)],
        3: [("never started", 139)] * 2,
    }
    assert "loss was not found in its output; its last lines:\n  nothing to read" in log
