"""A probe with real agents on a server that has no more than W&B's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.agent.settings import COUNT_VARIABLE, PROBE_VARIABLE
from deployer.config.project import Flags
from deployer.errors import ConfigError
from deployer.launch import probe as probing
from deployer.launch.agents.one_run_per_job import list_used_names, takes_one_run
from deployer.launch.agents.scaling import stays
from deployer.launch.pipeline import up, watch_sweep
from deployer.launch.request import Request
from deployer.model import Agent, AgentPlan, Plan, SweepPath
from deployer.sweeps.sweep_file import load_sweep
from deployer.watch.probe import Verdict
from tests.conftest import ServedBackend
from tests.project_files import read_project
from tests.stock import BIN, write_project

PATH = SweepPath("e", "p", "s")
PROBE = Agent(
    "s-a1", str(PATH), "running", 1.0, environment={COUNT_VARIABLE: "1", PROBE_VARIABLE: "1"}
)
WORKER = Agent("s-a2", str(PATH), "running", 2.0)
HELD = """
import argparse, os, time
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
run = wandb.init(config={**vars(parser.parse_args()), "epochs": 50})
run.log({"loss": 1.0, "epoch": 1})
while os.path.exists("hold"):
    time.sleep(0.1)
run.finish()
"""


def test_others_are_not_bound_to_one_run_as_a_probe_is() -> None:
    assert not takes_one_run(PROBE)
    assert not stays(PROBE)
    assert stays(WORKER)
    ended = Agent(**{**vars(PROBE), "state": "ended", "exit_code": 0})
    assert list_used_names([ended, WORKER]) == ["s-a1"]


def test_it_is_the_first_of_the_agents_that_are_planned(tmp_path: Path) -> None:
    file = write_project(tmp_path, {"method": "grid", "parameters": {"lr": {"values": [1]}}})
    agents = tuple(AgentPlan(f"s-a{n}", (), (("A", "b"),)) for n in (1, 2))
    plan = Plan(str(PATH), "http://here", "/folder", agents)
    request = Request(file, load_sweep(file))
    [first] = probing.narrow_to_probe(request)(plan).agents
    assert first.environment == (("A", "b"), (COUNT_VARIABLE, "1"), (PROBE_VARIABLE, "1"))
    # Where all take one run, it is one of them.
    alone = Request(file, request.sweep, one_run=True)
    assert probing.narrow_to_probe(alone)(plan).agents == agents[:1]


def test_beside_agents_at_work_it_is_refused() -> None:
    probing.check_alone([PROBE], PATH)
    with pytest.raises(ConfigError, match="--probe: 2 agents of e/p/s work already"):
        probing.check_alone([PROBE, WORKER], PATH)


@pytest.mark.full
@pytest.mark.slow(seconds=30)
def test_the_rest_joins_a_probe_that_goes_on(plain_backend: ServedBackend, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    grid = {"lr": {"values": [1, 2, 3]}}
    file = write_project(
        folder, {"method": "grid", "metric": {"name": "accuracy"}, "parameters": grid}
    )
    (folder / "train.py").write_text(HELD)
    (folder / "hold").touch()
    environment = {**plain_backend.environment, "PATH": f"{BIN}:/usr/bin:/bin"}
    project = read_project(folder, Flags(replicas=2), **environment)
    request = Request(file, load_sweep(file))
    launch = up(project, request, probing.start_probe)
    probe = launch.probe
    assert probe
    probe.logging_seconds = 0.0
    *_, last = probing.watch_probe(launch, probe)
    report = probing.judge(launch, request, probe)
    assert (report.verdict, report.going, report.value) == (Verdict.GOOD, True, None)
    assert sorted(report.logged) == ["epoch", "loss"]
    assert report.memory["memory"] > 1_000_000
    rest = report.rest
    assert rest
    assert (rest.runs, rest.agents, rest.seconds) == (2, 2, None)
    assert len(last.agents) == 1
    # Twice in a row: the run that goes on is looked at, and no other is started.
    again = up(project, request, probing.start_probe)
    assert [a.name for a in again.agents] == [a.name for a in launch.agents]

    joined = probing.start_rest(launch, request, going=report.going)
    wanted = joined.executor.get_wanted(joined.sweep_path)
    assert wanted
    assert len(joined.agents) == wanted.number == 2
    (folder / "hold").unlink()
    *_, last = watch_sweep(joined)
    assert last.results.coverage.sentence() == "3/3 configurations finished, 0 duplicates, 0 lost"
    launch.executor.forget(launch.sweep_path)
