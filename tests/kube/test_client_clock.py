"""Ages are judged by the API server's clock, in whichever namespace it answers."""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path

import pytest

from deployer.kube.client import open_kube
from deployer.kube.objects import POD
from tests.gke.odd_kubernetes import list_foreign, serve_odd_kubernetes

HOUR_SECONDS = 3600.0


def test_clients_of_all_namespaces_share_the_servers_clock(tmp_path: Path) -> None:
    with serve_odd_kubernetes(list_foreign(), ahead_seconds=HOUR_SECONDS) as server:
        place = {
            "server": f"https://{server.address}",
            "certificate-authority-data": base64.b64encode(server.ca).decode(),
        }
        content = {
            "clusters": [{"name": "c", "cluster": place}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        file = tmp_path / "kubeconfig"
        file.write_text(json.dumps(content))
        kube = open_kube(environment={**os.environ, "KUBECONFIG": str(file)}, owner="zoe")
        every = kube.in_namespace("")
        assert every.list_objects(POD) == []
        for client in (every, kube, kube.in_namespace("lab")):
            assert client.now() - time.time() == pytest.approx(HOUR_SECONDS, abs=5)
