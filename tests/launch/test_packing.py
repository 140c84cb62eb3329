"""`--packing K`: what it means here and in a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deployer.config import paths
from deployer.config.project import EMBEDDED, Flags
from deployer.executors.local.agent_folder import load_folders
from deployer.executors.plan import build_plan
from deployer.executors.registry import find_executor
from deployer.launch.pipeline import _resolve_packing, prepare_packing
from deployer.launch.planning import apply_plan
from deployer.launch.request import Session
from deployer.model import SweepPath, Wanted
from deployer.wandb_api.client import Client
from deployer.wandb_api.model import Viewer
from deployer.wandb_api.operations import create_sweep, get_viewer
from deployer.wandb_api.server import Server
from tests.conftest import ServedBackend
from tests.project_files import read_project
from tests.stock import BIN, write_project

PATH = SweepPath("e", "p", "s")


@pytest.mark.parametrize(
    ("gpus", "packing", "replicas", "agents"),
    [
        ("", 3, None, 3),
        ("0,1", 3, None, 6),
        ("0,1", 3, 4, 4),
        ("0,1", None, 5, 5),
    ],
)
def test_on_this_machine_it_is_for_each_gpu(
    tmp_path: Path, gpus: str, packing: int | None, replicas: int | None, agents: int
) -> None:
    project = read_project(tmp_path, Flags(replicas=replicas), CUDA_VISIBLE_DEVICES=gpus)
    client = Client("http://server", "key")
    server = Server(client, Viewer("", ""), embedded=False)
    session = Session(project, find_executor(project), server, PATH)
    assert _resolve_packing(session, packing).project.given_replicas == agents


def test_in_a_cluster_it_is_for_each_pod(tmp_path: Path) -> None:
    project = read_project(tmp_path, Flags(on="kubernetes"))
    assert prepare_packing(project, 3).kubernetes.agents_per_pod == 3
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
    plan = build_plan(str(path), server.url, str(folder), 3, gpus=executor.gpus or ())
    wanted: list[Wanted | None] = []
    apply_plan(server, executor, plan, lambda _: wanted.append(executor.wanted.get(str(path))))
    # Each is wanted in its turn: a watcher would start the others at once.
    assert [*wanted, executor.wanted.get(str(path))] == [Wanted(n) for n in range(4)]
    specs = [one.spec for one in load_folders(paths.agents_folder())]
    executor.stop([spec.name for spec in specs])
    assert [(spec.agents, spec.on_gpu) for spec in specs] == [(3, 2), (3, 1), (3, 2)]
