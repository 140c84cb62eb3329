"""Agents on a cluster against the same requests made by hand, on a real API server.

A thousand agents are pods of simulated nodes; the way to the first metric is that of a real pod.
Needs root, as tests/cluster does.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from deployer.kube.objects import JOB, POD, Kind, Manifest, build_selector, kind_of
from deployer.launch.planning import plan_agents
from deployer.launch.scaling import end_agents
from deployer.model import Plan, SweepPath
from deployer.wandb_api.operations import get_snapshot, list_sweeps
from deployer.watch.status import get_status
from tests.bench.figures import Figure, compare
from tests.cluster.bed import SECTION, Bed, make_bed, serve_for_pods
from tests.cluster.cluster import Cluster, start_cluster
from tests.cluster.conftest import make_namespace

AGENTS = 1000
THREADS = 16
TICKS = 5
POLL_SECONDS = 0.5
SIMULATED = {"gpu": 1, "cpu": "100m", "memory": "64Mi", "shared_memory": "16Mi"}


def bench_thousand_agents(folder: Path) -> list[Figure]:
    """Time making, watching and ending a thousand agents, against bare requests for the same."""
    with _serve(folder) as bed:
        bed.cluster.add_gpu_nodes(4, gpus=AGENTS)
        path = bed.create_sweep([0.1])
        ticks: list[float] = []
        ours: list[float] = []
        theirs: list[float] = []

        def submit() -> float:
            seconds = _time(lambda: _apply(bed, path))
            _wait_for_pods(bed, AGENTS)
            ticks.extend(_time(lambda: _tick(bed, path)) for _ in range(TICKS))
            ours.append(_time(lambda: end_agents(bed.executor, str(path))))
            return seconds

        def submit_by_hand() -> float:
            seconds = _time(lambda: _create_by_hand(bed, jobs))
            _wait_for_pods(bed, AGENTS)
            theirs.append(_time(lambda: _delete_by_hand(bed)))
            return seconds

        jobs = _build_jobs(bed, path)
        made = compare(f"{AGENTS} agents / bare create loop", 1.2, 2, submit, submit_by_hand)
    ratio = statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
    detail = f"{statistics.median(ours):.2f} s against {statistics.median(theirs):.2f} s, n=2"
    return [
        made,
        Figure(f"watch, one look at {AGENTS} pods", statistics.median(ticks), "s", 1.0, "n=10"),
        Figure(f"down of {AGENTS} / bare deletecollection", ratio, "times", 1.2, detail),
    ]


def bench_first_metric_in_pod(folder: Path) -> list[Figure]:
    """Time `up` to the first metric from a pod, against the same pod made by hand."""
    with _serve(folder) as bed:
        section = {**SECTION, "namespace": bed.namespace}
        (bed.folder / "deployer.yaml").write_text(yaml.safe_dump({"kubernetes": section}))
        figure = compare(
            "up to first metric from a pod / pod by hand",
            1.3,
            3,
            lambda: _first_metric_of_up(bed),
            lambda: _first_metric_by_hand(bed),
        )
    return [figure]


@contextmanager
def _serve(folder: Path) -> Iterator[Bed]:
    """Give a cluster, a namespace in it and a backend that its pods reach."""
    cluster: Cluster = start_cluster()
    try:
        with serve_for_pods(cluster, folder / "data") as server:
            namespace = make_namespace(cluster, "bench")
            bed = make_bed(cluster, namespace, cluster.kubeconfig, server, folder / "project")
            yield bed.with_section(**SIMULATED)
    finally:
        cluster.folder.release()


def _time(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def _plan(bed: Bed, path: SweepPath) -> tuple[Plan, dict[str, str]]:
    """Plan the agents; their keys are the W&B server's business and not timed."""
    plan = plan_agents(bed.server, bed.executor, path, AGENTS, bed.code)
    return plan, {agent.name: "k" * 40 for agent in plan.agents}


def _apply(bed: Bed, path: SweepPath) -> None:
    plan, keys = _plan(bed, path)
    bed.executor.apply(plan, keys)


def _tick(bed: Bed, path: SweepPath) -> None:
    status = get_status(bed.server.client, bed.executor, path, None, time.time())
    assert status.living_agents == AGENTS


def _build_jobs(bed: Bed, path: SweepPath) -> list[Manifest]:
    """Return the very Jobs that a plan sends."""
    plan, keys = _plan(bed, path)
    return [one for one in bed.executor.preview(plan, keys) if kind_of(one) == JOB]


def _create_by_hand(bed: Bed, jobs: list[Manifest]) -> None:
    client = bed.cluster.client.resources.get(api_version="batch/v1", kind="Job")
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda job: client.create(body=job, namespace=bed.namespace), jobs))


def _delete_by_hand(bed: Bed) -> None:
    client = bed.cluster.client.resources.get(api_version="batch/v1", kind="Job")
    client.delete(
        namespace=bed.namespace,
        label_selector=build_selector(),
        body={"propagationPolicy": "Background"},
    )
    _wait_until(lambda: not _count(bed, JOB) and not _count(bed, POD))


def _wait_for_pods(bed: Bed, count: int) -> None:
    """Wait until all pods run and the controllers have nothing left to do."""
    _wait_until(lambda: _count(bed, POD, "status.phase=Running") == count)


def _count(bed: Bed, kind: Kind, field_selector: str = "") -> int:
    client = bed.cluster.client.resources.get(api_version=kind.api_version, kind=kind.kind)
    return len(client.get(namespace=bed.namespace, field_selector=field_selector).items)


def _wait_until(happened: Callable[[], bool]) -> None:
    while not happened():
        time.sleep(POLL_SECONDS)


def _first_metric_of_up(bed: Bed) -> float:
    sweep = bed.folder / "sweep.yaml"
    project = _write_sweep(sweep)
    command = [sys.executable, "-m", "deployer", "up", "sweep.yaml", "--on", "kubernetes"]
    start = time.perf_counter()
    _run(bed, [*command, "--replicas", "1", "--new", "--detach"])
    path = _wait_for_sweep(bed, project)
    _wait_until_metric(bed, path)
    seconds = time.perf_counter() - start
    end_agents(bed.executor, str(path))
    return seconds


def _first_metric_by_hand(bed: Bed) -> float:
    sweep = bed.folder / "sweep.yaml"
    project = _write_sweep(sweep)
    start = time.perf_counter()
    _run(bed, [sys.executable, "-m", "wandb", "sweep", "sweep.yaml"])
    path = _wait_for_sweep(bed, project)
    there = ("-n", bed.namespace)
    bed.cluster.kubectl("create", "configmap", "code", f"--from-file={bed.folder}/train.py", *there)
    pod = json.dumps(_build_pod_by_hand(bed, path))
    bed.cluster.kubectl("create", "-f", "-", *there, stdin=pod)
    _wait_until_metric(bed, path)
    seconds = time.perf_counter() - start
    bed.cluster.kubectl("delete", "pod/by-hand", "configmap/code", "--grace-period=1", *there)
    return seconds


def _write_sweep(file: Path) -> str:
    """Write a sweep of one run into a project of its own; return the project."""
    project = f"bench-{uuid.uuid4().hex[:8]}"
    sweep = {
        "program": "train.py",
        "method": "grid",
        "project": project,
        "parameters": {"lr": {"value": 0.1}, "seconds": {"value": 20.0}},
    }
    file.write_text(yaml.safe_dump(sweep))
    return project


def _run(bed: Bed, command: list[str]) -> None:
    done = subprocess.run(
        command, cwd=bed.folder, env=_environment(bed), capture_output=True, text=True
    )
    assert not done.returncode, done.stderr


def _environment(bed: Bed) -> dict[str, str]:
    return {
        "HOME": str(bed.folder),
        "PATH": SECTION["env"]["PATH"],  # type: ignore[index]
        "KUBECONFIG": str(bed.cluster.kubeconfig),
        "WANDB_BASE_URL": bed.server.url,
        "WANDB_API_KEY": bed.server.client.key,
    }


def _wait_for_sweep(bed: Bed, project: str) -> SweepPath:
    while True:
        for sweep in list_sweeps(bed.server.client, bed.server.viewer.entity, project):
            return sweep.path
        time.sleep(0.05)


def _wait_until_metric(bed: Bed, path: SweepPath) -> None:
    while not any("loss" in run.summary for run in get_snapshot(bed.server.client, path).runs):
        time.sleep(0.05)


def _build_pod_by_hand(bed: Bed, path: SweepPath) -> dict[str, Any]:
    """Return what a user would write: the image, the script, `wandb agent`."""
    command = f"mkdir /tmp/work && cd /tmp/work && cp /code/*.py . && exec wandb agent {path}"
    environment = {
        **SECTION["env"],  # type: ignore[dict-item]
        "WANDB_BASE_URL": bed.server.url,
        "WANDB_API_KEY": bed.server.client.key,
        "HOME": "/tmp",
    }
    container = {
        "name": "agent",
        "image": SECTION["image"],
        "command": ["sh", "-c", command],
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "volumeMounts": [{"name": "code", "mountPath": "/code"}],
        "resources": {"limits": {"cpu": SECTION["cpu"], "memory": SECTION["memory"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "by-hand"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [container],
            "volumes": [{"name": "code", "configMap": {"name": "code"}}],
        },
    }
