"""Whether a quota has room for what agents bring, asked of a server that refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from deployer.errors import KubeError
from deployer.executors.kubernetes.waiting.references import Reference
from deployer.executors.kubernetes.waiting.room import check_room, judge_room
from deployer.kube.client import Kube, open_kube
from deployer.kube.kinds import CLAIM, CONFIG_MAP, SECRET

KINDS = {"secrets": "Secret", "configmaps": "ConfigMap"}
FULL = "is forbidden: exceeded quota: q, requested: {0}=1, used: {0}=0, limited: {0}=0"
UNKNOWN = "is forbidden: something else, {0}"


class Server(BaseHTTPRequestHandler):
    """Has one Secret, `there`, and refuses every other one."""

    refusal = FULL

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        verbs = ["get", "create"]
        kinds = [
            {"name": n, "kind": k, "namespaced": True, "verbs": verbs} for n, k in KINDS.items()
        ]
        answers: dict[str, Any] = {
            "/version": {"major": "1", "minor": "30"},
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "groups": []},
            "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": kinds},
            "/api/v1/namespaces/ns/secrets/there": {"kind": "Secret", "metadata": {"name": "a"}},
        }
        self._answer(200 if path in answers else 404, answers.get(path, {"message": "no"}))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        assert "dryRun=All" in self.path
        plural = self.path.partition("?")[0].rpartition("/")[2]
        self._answer(403, {"message": self.refusal.format(plural), "reason": "Forbidden"})

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Refusing(Server):
    """Refuses for a reason that is no quota's."""

    refusal = UNKNOWN


@pytest.fixture
def kube(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kube]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), request.param)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    file = tmp_path / "kubeconfig"
    config = {
        "current-context": "c",
        "clusters": [
            {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        ],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "ns"}}],
    }
    file.write_text(json.dumps(config))
    yield open_kube(environment={"KUBECONFIG": str(file)})
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("kube", [Server], indirect=True)
def test_a_quota_on_objects_refuses_what_is_missing_alone(kube: Kube) -> None:
    check_room(kube, [Reference(SECRET, "there"), Reference(CLAIM, "none")])
    for kind in (SECRET, CONFIG_MAP):
        with pytest.raises(KubeError, match="quota q allows 0") as caught:
            check_room(kube, [Reference(kind, "new")])
        assert "kubectl describe quota q -n ns" in caught.value.hint


def test_a_quota_needs_room_for_all_objects_of_a_kind() -> None:
    status = {"hard": {"secrets": "1", "count/configmaps": "3"}, "used": {"count/configmaps": "1"}}
    quota = {"metadata": {"name": "q"}, "status": status}
    assert judge_room(quota, {"secrets": 1, "configmaps": 2}, "ns") is None
    full = judge_room(quota, {"secrets": 2, "configmaps": 2}, "ns")
    assert full
    assert full.sentence == "quota q of namespace ns is used up: 0 of 1 secrets"
    assert full.remedy == "kubectl describe quota q -n ns"


@pytest.mark.parametrize("kube", [Refusing], indirect=True)
def test_another_refusal_is_not_a_quotas(kube: Kube) -> None:
    check_room(kube, [Reference(SECRET, "new")])
