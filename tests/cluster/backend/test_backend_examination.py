"""What `backend status` says of a backend in the cluster: ready, hung, its disk full, away."""

from __future__ import annotations

import pytest

from deployer.backend.server.daemon import Health
from deployer.executors.kubernetes.backend.deployment import ClusterBackend
from deployer.executors.kubernetes.backend.removal import describe_trouble, examine_backend
from deployer.kube.objects import POD
from tests.cluster.bed import open_client, wait_for
from tests.cluster.cluster import Cluster
from tests.cluster.pods import build_pod, python

ANSWER = """
import http.server

class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"WORD")

http.server.ThreadingHTTPServer(("", 8080), Server).serve_forever()
"""
SILENCE = """
import socket, time
listener = socket.create_server(("", 8080))
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("code", "health", "said"),
    [
        (ANSWER.replace("WORD", "ok"), Health.READY, ""),
        pytest.param(
            ANSWER.replace("WORD", "disk full"),
            Health.DISK_FULL,
            "the disk of the embedded backend is full",
            marks=pytest.mark.full,
        ),
        (SILENCE, Health.HUNG, "the embedded backend hangs: pod odd-0 does not respond"),
        pytest.param(
            "import time; time.sleep(600)",
            Health.AWAY,
            "is not ready: its server is starting",
            marks=pytest.mark.full,
        ),
    ],
    ids=["ready", "disk full", "hung", "away"],
)
def test_a_backend_is_asked_how_it_is(
    cluster: Cluster, namespace: str, code: str, health: Health, said: str
) -> None:
    """Also where its pod is not ready, since a server that hangs is not."""
    pod = build_pod("odd-0", python(code))
    ready = {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 1}
    pod["spec"]["containers"][0]["readinessProbe"] = ready
    cluster.create(pod, namespace)
    kube = open_client(cluster.kubeconfig, namespace)
    backend = ClusterBackend("odd", namespace, ready=False, key="")
    cluster.wait_for("pod/odd-0", "jsonpath=.status.phase=Running", namespace)
    wait_for(lambda: examine_backend(kube, backend) is health, health)
    trouble = describe_trouble(kube, backend, health)
    assert said in (trouble.message if trouble else "")


@pytest.mark.full
def test_a_backend_without_a_pod_is_away(cluster: Cluster, namespace: str) -> None:
    kube = open_client(cluster.kubeconfig, namespace)
    assert kube.get(POD, "odd-0") is None
    assert examine_backend(kube, ClusterBackend("odd", namespace, False, "")) is Health.AWAY
