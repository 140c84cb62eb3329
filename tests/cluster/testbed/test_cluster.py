"""The test cluster itself: a real API server, real pods, simulated GPUs, restricted tenants."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from kubernetes.dynamic.exceptions import ForbiddenError

from tests.cluster.cluster import Cluster, connect
from tests.cluster.control_plane.simulated import GPU_PRODUCT
from tests.cluster.describe import describe_namespace
from tests.cluster.pods import build_job, build_pod, python
from tests.cluster.tenants import make_tenant
from tests.cluster.volumes import make_volume

PROJECT = Path(__file__).parents[3]
OUTSIDE = "192.0.2.1"  # an address of nobody (RFC 5737)


@pytest.mark.full
def test_api_server_answers(cluster: Cluster) -> None:
    version = json.loads(cluster.kubectl("get", "--raw", "/version"))
    assert version["gitVersion"].startswith("v1.34.")
    assert cluster.kubectl("get", "--raw", "/readyz") == "ok"


def test_real_pod_runs_this_python(cluster: Cluster, namespace: str) -> None:
    code = "import os, sys, deployer.errors as e; print(sys.executable, os.getuid(), e.__file__)"
    cluster.create(build_pod("hello", python(code)), namespace)
    cluster.wait_for("pod/hello", "jsonpath=.status.phase=Succeeded", namespace)
    said = cluster.kubectl("logs", "hello", "-n", namespace).split()
    assert said == [sys.executable, "1000", str(PROJECT / "deployer/errors.py")]


@pytest.mark.full
def test_logs_follow_and_sigterm_reaches_the_program(cluster: Cluster, namespace: str) -> None:
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\n"
        "print('up'); signal.pause()"
    )
    cluster.create(build_job("stop", build_pod("stop", python(code))), namespace)
    cluster.wait_for("job/stop", "jsonpath=.status.ready=1", namespace)
    kubectl = [str(cluster.programs["kubectl"]), f"--kubeconfig={cluster.kubeconfig}"]
    follow = [*kubectl, "logs", "-f", "job/stop", "-n", namespace]
    with subprocess.Popen(follow, stdout=subprocess.PIPE, text=True) as logs:
        assert logs.stdout is not None
        assert logs.stdout.readline() == "up\n"
        pod = cluster.kubectl("get", "pods", "-n", namespace, "-o", "name").strip()
        cluster.kubectl("delete", pod, "-n", namespace, "--wait=false")
        assert logs.stdout.read() == ""
    cluster.wait_for("job/stop", "condition=Failed", namespace)


@pytest.mark.full
def test_too_much_memory_is_oom_killed(cluster: Cluster, namespace: str) -> None:
    pod = build_pod("big", python("b = bytearray(1 << 30)"), limits={"memory": "64Mi"})
    cluster.create(pod, namespace)
    cluster.wait_for("pod/big", "jsonpath=.status.phase=Failed", namespace)
    state = "jsonpath={.status.containerStatuses[0].state.terminated}"
    ended = json.loads(cluster.kubectl("get", "pod", "big", "-n", namespace, "-o", state))
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


@pytest.mark.full
def test_eviction_ends_a_pod(cluster: Cluster, namespace: str) -> None:
    cluster.create(build_pod("victim", ["sleep", "3600"]), namespace)
    cluster.wait_for("pod/victim", "condition=Ready", namespace)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "victim", "namespace": namespace},
        "deleteOptions": {"gracePeriodSeconds": 1},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/victim/eviction"
    cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    cluster.wait_for("pod/victim", "delete", namespace)


@pytest.mark.full
def test_pod_reaches_this_machine_and_nothing_beyond(cluster: Cluster, namespace: str) -> None:
    class Hello(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello pod")

    with HTTPServer((cluster.host, 0), Hello) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://{cluster.host}:{server.server_port}"
        code = f"import urllib.request as r; print(r.urlopen({url!r}).read().decode())"
        code += f"\ntry: r.urlopen('http://{OUTSIDE}')\nexcept OSError as no: print(no.reason)"
        cluster.create(build_pod("caller", python(code)), namespace)
        cluster.wait_for("pod/caller", "jsonpath=.status.phase=Succeeded", namespace)
        server.shutdown()
    said = cluster.kubectl("logs", "caller", "-n", namespace).splitlines()
    assert said == ["hello pod", "[Errno 113] No route to host"]


def test_services_and_dns(cluster: Cluster, namespace: str) -> None:
    serve = (
        "from http.server import HTTPServer, SimpleHTTPRequestHandler as Folder\n"
        "HTTPServer(('', 8000), Folder).serve_forever()"
    )
    server = build_pod("server", python(serve))
    server["metadata"]["labels"] = {"app": "server"}
    cluster.create(server, namespace)
    cluster.kubectl("expose", "pod", "server", "--port=80", "--target-port=8000", "-n", namespace)
    cluster.wait_for("pod/server", "condition=Ready", namespace)
    code = (
        "import ssl, urllib.request as r\n"
        "api = ssl.create_default_context("
        "cafile='/var/run/secrets/kubernetes.io/serviceaccount/ca.crt')\n"
        "print(r.urlopen('https://kubernetes.default.svc/version', context=api).status)\n"
        "while True:\n"
        "    try: print(r.urlopen('http://server').status); break\n"
        "    except OSError: pass"
    )
    cluster.create(build_pod("client", python(code)), namespace)
    cluster.wait_for("pod/client", "jsonpath=.status.phase=Succeeded", namespace)
    assert cluster.kubectl("logs", "client", "-n", namespace).split() == ["200", "200"]


@pytest.mark.usefixtures("real_gpus")  # another test may wait for no node to count any
@pytest.mark.full
def test_simulated_gpu_pod_is_scheduled(cluster: Cluster, namespace: str) -> None:
    nodes = cluster.add_gpu_nodes(1, gpus=2, prefix=f"gpu-{namespace[-6:]}")
    selector = {"nvidia.com/gpu.product": GPU_PRODUCT, "kubernetes.io/hostname": nodes[0]}
    for name, gpus in (("fits", "2"), ("waits", "1")):
        pod = build_pod(
            name,
            ["train"],
            limits={"nvidia.com/gpu": gpus},
            node_selector=selector,
        )
        cluster.create(pod, namespace)
        condition = "condition=Ready" if name == "fits" else "condition=PodScheduled=false"
        cluster.wait_for(f"pod/{name}", condition, namespace)
    message = 'jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}'
    said = cluster.kubectl("get", "pod", "waits", "-n", namespace, "-o", message)
    assert "Insufficient nvidia.com/gpu" in said
    cluster.kubectl("delete", "node", *nodes)


@pytest.mark.usefixtures("real_gpus")
@pytest.mark.full
def test_gpus_of_the_real_node_are_counted(cluster: Cluster, namespace: str) -> None:
    cluster.set_gpus("node-0", 8)  # pods of tests beside this one may wait for some
    pod = build_pod(
        "gpu",
        python("print('trained')"),
        limits={"nvidia.com/gpu": "1"},
        node_selector={"nvidia.com/gpu.product": "Tesla-T4"},
    )
    cluster.create(pod, namespace)
    cluster.wait_for("pod/gpu", "jsonpath=.status.phase=Succeeded", namespace)
    assert cluster.kubectl("logs", "gpu", "-n", namespace) == "trained\n"


def test_tenant_may_only_what_its_namespace_allows(cluster: Cluster, namespace: str) -> None:
    kubeconfig = make_tenant(cluster, namespace)
    tenant = connect(kubeconfig)
    pods = tenant.resources.get(api_version="v1", kind="Pod")
    pods.create(body=build_pod("allowed", python("print('ok')")), namespace=namespace)
    cluster.wait_for("pod/allowed", "jsonpath=.status.phase=Succeeded", namespace)

    privileged = build_pod("privileged", ["id"])
    privileged["spec"]["securityContext"] = {}
    with pytest.raises(ForbiddenError, match="violates PodSecurity"):
        pods.create(body=privileged, namespace=namespace)
    greedy = build_pod("greedy", ["id"], limits={"nvidia.com/gpu": "5"})
    with pytest.raises(ForbiddenError, match="exceeded quota"):
        pods.create(body=greedy, namespace=namespace)
    with pytest.raises(ForbiddenError, match="cannot create resource"):
        pods.create(body=build_pod("elsewhere", ["id"]), namespace="default")
    with pytest.raises(ForbiddenError, match="cannot list resource"):
        tenant.resources.get(api_version="v1", kind="Node").get()


@pytest.mark.full
def test_foreign_image_brings_its_own_files(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").write_text("#!/busybox/sh\necho a shell")
    (tmp_path / "bin/python").chmod(0o700)
    image = f"registry.example/{namespace}:1"
    cluster.add_image(image, folders={"/opt": tmp_path})
    pod = build_pod("foreign", ["python"])
    pod["spec"]["containers"][0]["image"] = image
    cluster.create(pod, namespace)
    cluster.wait_for("pod/foreign", "jsonpath=.status.phase=Succeeded", namespace)
    assert cluster.kubectl("logs", "foreign", "-n", namespace) == "a shell\n"


@pytest.mark.full
def test_failure_report_shows_events_and_logs(cluster: Cluster, namespace: str) -> None:
    cluster.create(build_job("sad", build_pod("sad", python("exit('no luck')"))), namespace)
    cluster.wait_for("job/sad", "condition=Failed", namespace)
    told = describe_namespace(cluster, namespace)
    for part in ("job.batch/sad", "BackoffLimitExceeded", "Started container main", "no luck"):
        assert part in told


@pytest.mark.full
def test_audit_log_has_the_bodies(cluster: Cluster, namespace: str) -> None:
    body = build_job("audited", build_pod("audited", ["sleep", "0"]))
    cluster.create(body, namespace)
    sent = [
        event["requestObject"]
        for event in cluster.list_requests("admin")
        if event["verb"] == "create"
        and event["objectRef"]["resource"] == "jobs"
        and event["objectRef"]["namespace"] == namespace
    ]
    assert len(sent) == 1
    assert sent[0]["metadata"]["name"] == "audited"
    assert sent[0]["spec"]["template"]["spec"]["containers"][0]["command"] == ["sleep", "0"]


@pytest.mark.full
def test_static_volume_is_shared_by_pods(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for parent in list(tmp_path.parents)[:-2]:
        parent.chmod(0o755)
    make_volume(cluster, namespace, "data", tmp_path)
    pod = build_pod("writer", python("open('/data/x', 'w').write('kept')"))
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    cluster.create(pod, namespace)
    cluster.wait_for("pod/writer", "jsonpath=.status.phase=Succeeded", namespace)
    assert (tmp_path / "x").read_text() == "kept"
