"""How long `deployer doctor` takes against a cluster of this machine, Python included."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from tests.bench.figures import Figure
from tests.cluster.bed import SECTION, serve_for_pods
from tests.cluster.cluster import start_cluster
from tests.cluster.conftest import make_namespace
from tests.cluster.shell import Shell, open_shell
from tests.cluster.tenants import make_tenant

ROUNDS = 5
MOST_SECONDS = 3.0


def bench_doctor(folder: Path) -> list[Figure]:
    """Examine a tenant's namespace, and one of an administrator, from the command to the answer."""
    cluster = start_cluster()
    try:
        cluster.add_gpu_nodes(4)
        namespace = make_namespace(cluster, "doctor")
        tenant = make_tenant(cluster, namespace)
        with serve_for_pods(cluster, folder / "data") as server:
            return [
                _measure(who, open_shell(folder / who, kubeconfig, server), namespace)
                for who, kubeconfig in (("tenant", tenant), ("administrator", cluster.kubeconfig))
            ]
    finally:
        cluster.folder.release()


def _measure(who: str, shell: Shell, namespace: str) -> Figure:
    section = {**SECTION, "namespace": namespace, "image_pull_policy": "Never"}
    shell.write("deployer.yaml", {"on": "kubernetes", "kubernetes": section})
    _time(shell)  # discovery is in its cache from now on
    seconds = [_time(shell) for _ in range(ROUNDS)]
    detail = f"fastest {min(seconds):.2f} s, n={ROUNDS}"
    return Figure(f"doctor as {who}", statistics.median(seconds), "s", MOST_SECONDS, detail)


def _time(shell: Shell) -> float:
    start = time.perf_counter()
    done = shell.try_deployer("doctor")
    if done.returncode:
        raise AssertionError(f"doctor found something wrong: {done.stdout}{done.stderr}")
    return time.perf_counter() - start
