"""How test clusters start, break, heal and end."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.cache import CACHE
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane.binaries import find_programs
from tests.cluster.control_plane.keeper import CGROUPS
from tests.cluster.pods import build_job, build_pod

pytestmark = pytest.mark.full
PROJECT = Path(__file__).parents[3]


@pytest.mark.kube
@pytest.mark.slow
def test_given_programs_come_before_built_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etcd").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    programs = find_programs()
    assert programs["etcd"] == tmp_path / "etcd"
    assert programs["kube-apiserver"].is_relative_to(CACHE)


def test_cluster_without_a_real_node(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(0)
    assert cluster.server.startswith("https://127.0.0.1:")
    cluster.add_gpu_nodes(1, gpus=1)
    ends = {"sim/runs-for": "100ms", "sim/exit-code": "3"}
    pod = build_pod("sim", ["train"], limits={"nvidia.com/gpu": "1"}, annotations=ends)
    cluster.create(build_job("sim", pod), "default")
    cluster.wait_for("job/sim", "condition=Failed")


def test_cluster_heals_from_lost_servers_and_nodes(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(2, short_timeouts=True)
    cluster.create(build_pod("p", ["sleep", "3600"]), "default")
    cluster.wait_for("pod/p", "condition=Ready")
    node = cluster.kubectl("get", "pod", "p", "-o", "jsonpath={.spec.nodeName}")
    os.kill(cluster.folder.get_pid("apiserver"), signal.SIGKILL)
    cluster.folder.wait_for("API server", lambda: not cluster.try_kubectl("get", "ns").returncode)
    cluster.lose_node(node)
    cluster.wait_for(f"node/{node}", "condition=Ready=Unknown")
    cluster.wait_for("pod/p", "condition=DisruptionTarget")
    cluster.return_node(node)
    cluster.wait_for(f"node/{node}", "condition=Ready")
    cluster.wait_for("pod/p", "delete")


@pytest.mark.kube
@pytest.mark.slow
def test_nothing_is_left_behind_when_pytest_is_killed() -> None:
    code = (
        "import time; from tests.cluster.cluster import start_cluster; c = start_cluster();"
        "print(c.folder.path, c.nodes[0].link.device, flush=True); time.sleep(3600)"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT) as process:
        assert process.stdout is not None
        folder, device = process.stdout.readline().split()
        with open(f"{folder}/keeper", "rb") as keeper:
            process.kill()
            fcntl.flock(keeper, fcntl.LOCK_EX)  # free when the keeper has ended
    assert not Path(folder).exists()
    assert not Path(f"/sys/class/net/{device}").exists()
    assert not list(CGROUPS.glob(f"*/{Path(folder).name}*"))
    lines = [" ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"])]
    assert not [line for line in lines if folder in line]
