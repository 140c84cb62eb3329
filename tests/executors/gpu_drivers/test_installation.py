"""`drivers install` where it has nothing to install: what it leaves alone, and what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deployer.errors import KubeError
from deployer.executors.kubernetes.gpu_drivers import (
    AHEAD,
    PLUGIN_HINT,
    ensure_drivers,
)
from deployer.executors.kubernetes.gpu_nodes import ASK
from tests.executors.gpu_drivers.objects import GKE_LABELS, build_node
from tests.executors.refusing_server import Answering, serve_kube

ON_PREM = {"nvidia.com/gpu.present": "true"}
MANAGED = {**GKE_LABELS, "cloud.google.com/gke-gpu-driver-version": "default"}
BY_OPERATOR = {**GKE_LABELS, "nvidia.com/gpu.deploy.driver": "true"}
COUNTS = {"nvidia.com/gpu": 2}


def install(folder: Path, *nodes: dict[str, Any]) -> None:
    """Run it against a server with these nodes whose user may only read."""

    class Server(Answering):
        def do_GET(self) -> None:
            items = list(nodes) if self.path.partition("?")[0].endswith("/nodes") else []
            self.answer(200, {"kind": "List", "metadata": {}, "items": items})

        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert sent["kind"] == "SelfSubjectAccessReview"
            self.answer(201, {**sent, "status": {"allowed": False}})

    with serve_kube(folder, Server) as kube:
        assert ensure_drivers(kube, wait_seconds=0) == ()


@pytest.mark.parametrize(
    ("labels", "said", "hint"),
    [
        (None, "no node with a GPU exists now", AHEAD),
        (ON_PREM, "no node reports a GPU: a", PLUGIN_HINT),
        (GKE_LABELS, "the GPU driver is missing on a, and you may not install it", ASK),
        (MANAGED, "no node reports a GPU after 0 s: a", "spec.nodeName=a"),
        (BY_OPERATOR, "no node reports a GPU after 0 s: a", "spec.nodeName=a"),
    ],
)
def test_where_no_node_counts_a_gpu(
    labels: dict[str, str] | None, said: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(KubeError) as caught:
        install(tmp_path, build_node("a", labels or {}))
    assert caught.value.message == said
    assert caught.value.hint.endswith(hint)


def test_nodes_that_get_none_beside_one_that_counts(tmp_path: Path, told: list[str]) -> None:
    cordoned = build_node("c", MANAGED, unschedulable=True)
    install(tmp_path, build_node("a", ON_PREM, COUNTS), build_node("b", ON_PREM), cordoned)
    assert told == ["GPU drivers: 1 of 3 nodes report GPUs; none: b, c is cordoned"]
