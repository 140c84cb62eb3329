"""A sweep on a cluster: a backend that pods reach, a project folder, a tenant's namespace."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

import yaml

from deployer.backend.data_folder import read_key
from deployer.config.kubernetes import ClusterConfig
from deployer.config.project import EMBEDDED, Code
from deployer.executors.kubernetes.executor import KubernetesExecutor
from deployer.kube.client import Kube, open_kube
from deployer.kube.objects import CONFIG_MAP, JOB, POD, SECRET, build_selector
from deployer.launch.pipeline import Launch
from deployer.launch.planning import apply_plan, plan_agents
from deployer.model import SweepPath
from deployer.sweeps.results import Results, build_results
from deployer.wandb_api.client import Client
from deployer.wandb_api.operations import create_sweep, get_snapshot, get_viewer
from deployer.wandb_api.server import Server
from tests.cluster.cluster import IMAGE, Cluster
from tests.cluster.control_plane.node import ENVIRONMENT
from tests.project_files import build_project
from tests.sections import parse_cluster

PATIENCE_SECONDS = 180.0
OURS = (JOB, POD, SECRET, CONFIG_MAP)
BIN = Path(sys.executable).parent

# What restricted pods on the test cluster need to run this machine's Python.
SECTION = {
    "image": IMAGE,
    "python": f"{ENVIRONMENT}/bin/{Path(sys.executable).name}",
    "cpu": "200m",
    "memory": "512Mi",
    "shared_memory": "16Mi",
    "gpu": 0,
    "env": {"PATH": f"{BIN}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
    "grace_period": "20s",
}
TRAINER = """
import argparse, time
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--megabytes", type=int, default=0)
arguments = parser.parse_args()
with wandb.init() as run:
    block = bytearray(arguments.megabytes << 20)
    for step in range(int(arguments.seconds * 2)):
        run.log({"loss": arguments.lr / (step + 1)}, step=step, commit=True)
        time.sleep(0.5)
    run.log({"loss": arguments.lr})
    print("trained with", arguments.lr, flush=True)
"""
# Goes on until a moment that all runs of a sweep share.
PATIENT_TRAINER = """
import argparse, socket, time
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--host")
parser.add_argument("--port", type=int)
arguments = parser.parse_args()

def is_held():
    try:
        socket.create_connection((arguments.host, arguments.port), timeout=5).close()
        return True
    except OSError:
        return False

with wandb.init() as run:
    step = 0
    while step < 4 or is_held():
        run.log({"loss": arguments.lr / (step + 1)}, step=step, commit=True)
        step += 1
        time.sleep(0.5)
"""


@contextmanager
def holding_runs(cluster: Cluster) -> Iterator[dict[str, str | float]]:
    """Yield the parameters with which runs of PATIENT_TRAINER go on until this has ended."""
    with ThreadingTCPServer((cluster.host, 0), BaseRequestHandler) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        host, port = server.server_address[:2]
        yield {"host": str(host), "port": port}
        server.shutdown()


@dataclass(frozen=True)
class Bed:
    """Everything that a test of agents on the cluster needs."""

    cluster: Cluster
    namespace: str
    kube: Kube
    executor: KubernetesExecutor
    server: Server
    folder: Path

    @property
    def code(self) -> Code:
        """Return the code of the agents: the project folder as it is."""
        return Code(self.folder)

    def create_sweep(self, lrs: list[float], **fixed: str | float) -> SweepPath:
        """Make a grid sweep over `lr` in a project of its own."""
        parameters: dict[str, object] = {"lr": {"values": lrs}}
        parameters |= {name: {"value": value} for name, value in fixed.items()}
        config = {"program": "train.py", "method": "grid", "parameters": parameters}
        config["metric"] = {"name": "loss", "goal": "minimize"}
        name = f"kube-{uuid.uuid4().hex[:8]}"
        entity = self.server.viewer.entity
        path, _ = create_sweep(
            self.server.client, yaml.safe_dump(config), entity, name, uuid.uuid4().hex
        )
        return path

    def start(self, path: SweepPath, replicas: int) -> None:
        """Ensure so many agents, as `up` and `agents up` do."""
        plan = plan_agents(self.server, self.executor, path, replicas, self.code)
        apply_plan(self.server, self.executor, plan)

    def launch(self, path: SweepPath) -> Launch:
        """Return a sweep as whoever watches it has it."""
        return Launch(self.executor.project, self.executor, self.server, path)

    def results(self, path: SweepPath) -> Results:
        """Return the sweep's results as they are now."""
        snapshot = get_snapshot(self.server.client, path)
        return build_results(snapshot.sweep, snapshot.runs)

    def states(self, path: SweepPath) -> list[str]:
        """Return the agents' states."""
        return [agent.state for agent in self.executor.list_agents(str(path))]

    def list_left(self) -> list[str]:
        """Return what of ours is still in the namespace."""
        return [
            f"{kind.kind}/{item['metadata']['name']}"
            for kind in OURS
            for item in self.kube.list_objects(kind, build_selector())
        ]

    def wait_for(self, happened: Callable[[], object], what: str) -> None:
        """Wait for a state; fails with its name if it does not come."""
        wait_for(happened, what)

    def with_section(self, **changes: object) -> Bed:
        """Return the same bed with another section `kubernetes:`."""
        return self.with_kube(self.kube, **changes)

    def with_kube(self, kube: Kube, **changes: object) -> Bed:
        """Return the same bed seen through another client."""
        executor = build_executor(kube, build_section(**changes), self.folder)
        return replace(self, kube=kube, executor=executor)


def wait_for(
    happened: Callable[[], object], what: str, patience_seconds: float = PATIENCE_SECONDS
) -> None:
    """Wait for a state; fails with its name if it does not come."""
    deadline = time.monotonic() + patience_seconds
    while not happened():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.3)


def build_executor(kube: Kube, section: ClusterConfig, folder: Path) -> KubernetesExecutor:
    """Return the cluster of a client as agents of this folder have it."""
    project = replace(build_project(), folder=folder, wandb="http://w.example")
    executor = KubernetesExecutor("kubernetes", project.with_settings(kubernetes=section))
    executor.target.kube = kube
    return executor


def build_section(**changes: object) -> ClusterConfig:
    """Return the section `kubernetes:` for the test cluster."""
    return parse_cluster({**SECTION, **changes})


def open_client(kubeconfig: Path, namespace: str, owner: str | None = None) -> Kube:
    """Return the client for a kubeconfig; `owner` owns what it creates."""
    environment = {"KUBECONFIG": str(kubeconfig)}
    return open_kube(namespace=namespace, environment=environment, owner=owner)


@contextmanager
def serve_for_pods(cluster: Cluster, data: Path, *flags: str) -> Iterator[Server]:
    """Serve a backend on the address at which pods reach this machine; "plain" as W&B's own."""
    command = [
        sys.executable,
        "-m",
        "deployer.backend.server.foreground",
        cluster.host,
        "0",
        str(data),
        *flags,
    ]
    environment = {**os.environ, "USER": "tester"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        client = Client(url, read_key(data), EMBEDDED)
        try:
            yield Server(client, get_viewer(client), embedded=False)
        finally:
            process.terminate()


def make_bed(
    cluster: Cluster, namespace: str, kubeconfig: Path, server: Server, folder: Path
) -> Bed:
    """Return a bed whose project folder has the trainer."""
    folder.mkdir()
    (folder / "train.py").write_text(TRAINER)
    kube = open_client(kubeconfig, namespace)
    executor = build_executor(kube, build_section(), folder)
    return Bed(cluster, namespace, kube, executor, server, folder)
