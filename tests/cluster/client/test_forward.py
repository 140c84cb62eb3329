"""A forwarded port: kept up by concurrent requests, a replaced pod and a killed API server."""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from deployer.errors import KubeError
from deployer.executors.kubernetes.diagnose.rights import REACH_BACKEND, check_rights
from deployer.kube.objects import POD
from deployer.kube.port_forward import Forward
from tests.cluster.bed import open_client, wait_for
from tests.cluster.cluster import Cluster
from tests.cluster.pods import build_pod, python
from tests.cluster.tenants import load_rules, make_tenant, replace_role

ECHO = """
import http.server

class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        content = self.rfile.read(int(self.headers["Content-Length"])) + b"{mark}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

http.server.ThreadingHTTPServer(("", 8080), Echo).serve_forever()
"""
MEGABYTE = 1 << 20


def build_echo(mark: str) -> dict[str, Any]:
    pod = build_pod("echo", python(ECHO.replace("{mark}", mark)))
    probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    pod["spec"]["containers"][0]["readinessProbe"] = probe
    return pod


def post(url: str, content: bytes) -> bytes:
    """Send bytes and return the answer; once more if the connection was lost."""
    for last in (False, True):
        try:
            with urllib.request.urlopen(url, data=content, timeout=60) as answer:
                return bytes(answer.read())
        except (urllib.error.URLError, ConnectionError):
            if last:
                raise
    raise AssertionError("unreachable")


@pytest.mark.full
def test_a_port_outlives_its_pod_and_the_api_server(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(1)
    kube = open_client(cluster.kubeconfig, "default")
    cluster.create(build_echo("-1"), "default")
    with Forward(kube, "echo", 8080) as forward:  # before the pod is there
        assert post(forward.url, b"hello") == b"hello-1"
        large = os.urandom(8 * MEGABYTE)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: post(forward.url, large), range(16)))
        assert set(answers) == {large + b"-1"}

        kube.delete(POD, "echo", grace_seconds=0)
        cluster.wait_for("pod/echo", "delete")
        cluster.create(build_echo("-2"), "default")
        assert post(forward.url, b"hello") == b"hello-2"

        os.kill(cluster.folder.get_pid("apiserver"), signal.SIGKILL)
        assert post(forward.url, b"hello") == b"hello-2"
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(forward.url, timeout=5)


def test_who_may_not_forward_sees_the_connection_end(cluster: Cluster, namespace: str) -> None:
    kube = open_client(make_tenant(cluster, namespace), namespace)
    cluster.create(build_echo(""), namespace)
    cluster.wait_for("pod/echo", "condition=Ready", namespace)
    with Forward(kube, "echo", 8080) as forward, pytest.raises((urllib.error.URLError, OSError)):
        post(forward.url, b"hello")


def test_a_tunnel_needs_the_right_to_get_and_to_create_it(cluster: Cluster, namespace: str) -> None:
    """Kubernetes 1.35 and later ask for both (kubernetes#134577)."""
    rules = [*load_rules(), *load_rules("backend")]
    kube = open_client(make_tenant(cluster, namespace, rules=rules), namespace)
    cluster.create(build_echo(""), namespace)
    cluster.wait_for("pod/echo", "condition=Ready", namespace)
    check_rights(kube, REACH_BACKEND)
    with Forward(kube, "echo", 8080) as forward:
        assert post(forward.url, b"hello") == b"hello"
    others = [one for one in rules if one["resources"] != ["pods/portforward"]]
    alone = {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["get"]}
    replace_role(cluster, namespace, [*others, alone])
    wait_for(lambda: not kube.is_allowed("create", POD, "portforward"), "the Role")
    with pytest.raises(KubeError) as caught:
        kube.open_tunnel("echo", 8080)
    # The server does not say which right is missing.
    assert caught.value.message.endswith(': pods "echo" is forbidden')
    assert caught.value.status == 403
    command = f"kubectl auth can-i create pods/portforward -n {namespace} --context {kube.context}"
    assert caught.value.hint == command
    with pytest.raises(KubeError, match="you may not create pods/portforward: "):
        check_rights(kube, REACH_BACKEND)
