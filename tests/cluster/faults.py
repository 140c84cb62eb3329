"""What can happen to pods and servers of a cluster: each function does it once, for real."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import psutil

from deployer.backend.data_folder import read_server_id
from tests.cluster.cluster import Cluster

# Kubernetes protects a container's processes from the kernel's killer all alike, so that it takes
# the largest. This one offers another one first, found by a word of its command line. It stops it
# until then: short of memory, a process may also be refused a socket, and fail by itself.
HOG = """
import os, signal, sys
for name in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open(f"/proc/{name}/cmdline") as file:
            chosen = sys.argv[1] in file.read() and int(name) != os.getpid()
        if chosen:
            with open(f"/proc/{name}/oom_score_adj", "w") as file:
                file.write("1000")
            os.kill(int(name), signal.SIGSTOP)
    except OSError:
        pass
blocks = []
while True:
    blocks.append(bytearray(16 << 20))
"""
SUPERVISOR = "agent.zip"
TRAINER = "train.py"


def evict(cluster: Cluster, namespace: str, pod: str) -> None:
    """Ask for a pod's eviction, as `kubectl drain` and autoscalers do."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
    cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


def exhaust_memory(cluster: Cluster, namespace: str, pod: str, victim: str) -> None:
    """Use up a pod's memory, so that the kernel kills `victim`: SUPERVISOR or TRAINER."""
    look = ("-n", namespace, pod, "--", sys.executable, "-c", HOG, victim)
    assert cluster.try_kubectl("exec", *look).returncode != 0


def freeze_node(cluster: Cluster, name: str) -> None:
    """Stop a node's kubelet alone: the cluster hears nothing of the node, whose pods go on."""
    _find_kubelet(cluster, name).suspend()


def thaw_node(cluster: Cluster, name: str) -> None:
    """Let a node's kubelet go on: it is told what has become of its pods meanwhile."""
    _find_kubelet(cluster, name).resume()


def _find_kubelet(cluster: Cluster, name: str) -> psutil.Process:
    below = psutil.Process(cluster.folder.get_pid(name)).children(recursive=True)
    [kubelet] = [process for process in below if _is_kubelet(process)]
    return kubelet


def _is_kubelet(process: psutil.Process) -> bool:
    try:
        return process.name() == "kubelet"
    except psutil.NoSuchProcess:  # it has ended since it was listed
        return False


def read_node_logs(cluster: Cluster, name: str, namespace: str) -> str:
    """Return what the pods of a namespace have printed on a node, also while it is cut off."""
    [node] = [node for node in cluster.nodes if node.name == name]
    files = (node.folder / "log/pods").glob(f"{namespace}_*/*/*.log")
    return "".join(file.read_text(errors="replace") for file in files)


def restart_api_server(cluster: Cluster) -> None:
    """Kill the API server and wait until it is back."""
    old = cluster.folder.get_pid("apiserver")
    os.kill(old, signal.SIGKILL)
    cluster.folder.wait_for(
        "new API server",
        lambda: (
            cluster.folder.get_pid("apiserver") != old
            and not cluster.try_kubectl("get", "ns").returncode
        ),
    )


def kill_backend(data: Path) -> None:
    """Kill the process that serves a data folder."""
    process_id = read_server_id(data)
    assert process_id is not None
    os.kill(process_id, signal.SIGKILL)
