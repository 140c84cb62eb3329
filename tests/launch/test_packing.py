"""`--packing`: what it means where, what is kept of a measurement, and a real one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deployer.config import paths
from deployer.config.project import EMBEDDED, Flags
from deployer.executors.base import list_gpus
from deployer.executors.local.agent_folder import load_folders
from deployer.executors.plan import build_plan
from deployer.executors.registry import find_executor
from deployer.launch import pipeline
from deployer.launch.agents.planning import apply_plan
from deployer.launch.packing.decision import prepare_packing, settle_packing
from deployer.launch.request import Packing, Request, parse_packing
from deployer.launch.session import Session
from deployer.model import Ending, SweepPath, Wanted
from deployer.sweeps.sweep_file import load_sweep
from deployer.wandb_api.client import Client
from deployer.wandb_api.model import Viewer
from deployer.wandb_api.operations import create_sweep, get_viewer
from deployer.wandb_api.server import Server
from deployer.watch.packing.levels import Level, Place
from deployer.watch.packing.measurement import Measurement, Patience
from deployer.watch.packing.rates import Rate, Unit
from tests.conftest import ServedBackend
from tests.project_files import read_project
from tests.stock import BIN, write_project

PATH = SweepPath("e", "p", "s")


def test_it_is_a_number_or_auto() -> None:
    assert parse_packing("3") == Packing(3)
    assert parse_packing("auto") == Packing(None)
    for text in ("0", "-1", "129", "many", ""):
        with pytest.raises(ValueError, match="is neither `auto` nor a number from 1 to 128"):
            parse_packing(text)


@pytest.mark.parametrize(
    ("gpus", "packing", "replicas", "agents"),
    [
        ("", 3, None, 3),
        ("0,1", 3, None, 6),
        ("0,1", 3, 4, 4),
        ("0,1", None, None, 2),
        ("0,1,2", None, 2, 2),
    ],
)
def test_on_this_machine_it_is_for_each_gpu(
    tmp_path: Path, gpus: str, packing: int | None, replicas: int | None, agents: int
) -> None:
    project = read_project(tmp_path, Flags(replicas=replicas), CUDA_VISIBLE_DEVICES=gpus)
    client = Client("http://server", "key")
    server = Server(client, Viewer("", ""), embedded=False)
    session = Session(project, find_executor(project), server, PATH)
    wanted, packer = settle_packing(session, Packing(packing))
    assert wanted.project.given_replicas == agents
    assert (packer is not None) == (packing is None)


def test_in_a_cluster_it_is_for_each_pod(tmp_path: Path) -> None:
    project = read_project(tmp_path, Flags(on="kubernetes"))
    assert prepare_packing(project, Packing(3)).kubernetes.agents_per_pod == 3
    assert prepare_packing(project, None) == project


@pytest.mark.slow(seconds=5)
def test_agents_on_one_gpu_have_a_share_each_though_they_start_one_after_another(
    plain_backend: ServedBackend, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    grid = {"method": "grid", "parameters": {"lr": {"values": [1]}}}
    write_project(folder, grid)
    client = Client(plain_backend.url, plain_backend.key, EMBEDDED)
    viewer = get_viewer(client)
    path = create_sweep(client, json.dumps(grid), viewer.entity, "shares", "s")[0]
    project = read_project(folder, PATH=f"{BIN}:/usr/bin:/bin", CUDA_VISIBLE_DEVICES="0,1")
    executor, server = find_executor(project), Server(client, viewer, embedded=False)
    plan = build_plan(str(path), server.url, str(folder), 3, gpus=list_gpus(executor))
    wanted: list[Wanted | None] = []
    apply_plan(server, executor, plan, lambda _: wanted.append(executor.get_wanted(str(path))))
    # Each is wanted in its turn: a watcher would start the others at once.
    assert [*wanted, executor.get_wanted(str(path))] == [Wanted(n) for n in range(4)]
    specs = [one.spec for one in load_folders(paths.agents_folder())]
    executor.stop([spec.name for spec in specs])
    assert [(spec.agents, spec.on_gpu) for spec in specs] == [(3, 2), (3, 1), (3, 2)]


def test_agents_that_others_join_take_memory_as_they_need_it(tmp_path: Path) -> None:
    project = read_project(tmp_path, TF_FORCE_GPU_ALLOW_GROWTH="false")
    told = prepare_packing(project, Packing(None)).environment
    assert told["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert told["TF_FORCE_GPU_ALLOW_GROWTH"] == "false"  # as the user has it


@pytest.mark.slow(seconds=25)
def test_a_sweep_is_measured_while_it_runs(
    backend: ServedBackend, tmp_path: Path, told: list[str]
) -> None:
    """With real agents: the one that does not pay leaves after its run, and nothing is lost."""
    folder = tmp_path / "project"
    grid = {"lr": {"values": list(range(12))}}
    file = write_project(folder, {"method": "grid", "parameters": grid})
    path = {"PATH": f"{BIN}:/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": ""}
    project = read_project(folder, **backend.environment, **path)
    request = Request(file, load_sweep(file), packing=Packing(None))
    launch = pipeline.up(project, request)
    packer = launch.packer
    assert packer
    # As if one alone were known to be so fast that two are not.
    packer.measurement = Measurement(
        Place(), levels=[Level(1, Rate(10.0**6, 0.0, Unit.RUNS))], patience=Patience(level=1.0)
    )
    *_, last = pipeline.watch_sweep(launch)
    # On a busy machine a run may be assigned a second time.
    done = "12/12 configurations finished, 0 duplicates, 0 lost"
    assert last.results.coverage.sentence().startswith(done)
    assert [level.size for level in packer.measurement.levels] == [1, 2]
    assert packer.measurement.best == 1
    assert packer.measurement.sentence() in told
    sent = f"{launch.path.sweep_id}-a2"
    assert launch.executor.get_wanted(launch.sweep_path) == Wanted(1, frozenset({sent}))
    agents = {agent.name: agent for agent in launch.executor.list_agents(launch.sweep_path)}
    assert {agent.exit_code for agent in agents.values()} == {0}
    assert [agent.ending is Ending.DRAINED for agent in agents.values()] == [False, True]
    launch.executor.forget(launch.sweep_path)
