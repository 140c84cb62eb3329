"""What is looked at in a cluster to say why a pod does not run, how soon, and with which rights."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from deployer.errors import Severity
from deployer.executors.base import examine_all
from deployer.executors.kubernetes.diagnose.case import Case
from deployer.executors.kubernetes.diagnose.doctor import list_object_checks
from deployer.executors.kubernetes.diagnose.pending import (
    LOOK_AFTER_SECONDS,
    PendingPods,
)
from deployer.executors.kubernetes.diagnose.view import LIFE_SECONDS
from deployer.kube.client import Kube
from deployer.kube.objects import CLAIM
from deployer.watch.status import POLL_SECONDS
from tests.executors.diagnose.bench import UNBOUND, unscheduled
from tests.executors.refusing_server import Answering, serve_kube
from tests.executors.test_objects import NAME, build_object
from tests.sections import parse_cluster

SAID_WITHIN_SECONDS = 10.0
OWN = "/api/v1/namespaces/ns"
NOT_FOUND = 'storageclass.storage.k8s.io "fast" not found'
IS_NOT = "PersistentVolumeClaim data is not bound"
CLAIMED: dict[str, Any] = {
    "metadata": {"name": "data", "creationTimestamp": "2025-12-31T22:00:00Z"},
    "spec": {"storageClassName": "fast"},
    "status": {"phase": "Pending"},
}
SAID_BEFORE = {
    "metadata": {"name": "data.1"},
    "involvedObject": {"kind": "PersistentVolumeClaim", "name": "data"},
    "type": "Warning",
    "reason": "ProvisioningFailed",
    "message": NOT_FOUND,
    "lastTimestamp": "2025-12-31T23:00:00Z",
}


REFUSALS = {403: "Forbidden", 404: "NotFound"}


class Cluster(Answering):
    """Has a claim that waits for its StorageClass; the rest may not be read."""

    claim = 200

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        warnings = "type=Warning" in parse_qs(url.query).get("fieldSelector", [""])[0]
        answers = {
            f"{OWN}/events": {"metadata": {}, "items": [SAID_BEFORE] if warnings else []},
            f"{OWN}/pods": {"metadata": {}, "items": []},
        }
        if url.path == f"{OWN}/persistentvolumeclaims/data":
            self._answer(self.claim, CLAIMED)
        elif url.path == f"{OWN}/serviceaccounts/trainer":
            self._answer(404, {})
        else:
            self._answer(200 if url.path in answers else 403, answers.get(url.path, {}))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path.partition("?")[0].endswith("/selfsubjectaccessreviews")
        self._answer(201, {"status": {"allowed": False}})

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        if status in REFUSALS:
            details = {"name": self.path.rpartition("/")[2]}
            content = {"reason": REFUSALS[status], "message": self.path, "details": details}
        self.answer(status, content)


class Hidden(Cluster):
    """Claims may not be read either."""

    claim = 403


@pytest.fixture
def kube(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kube]:
    with serve_kube(tmp_path, request.param) as kube:
        yield kube


def build_pod(**spec: Any) -> dict[str, Any]:
    pod = build_object("Pod", unscheduled(UNBOUND), f"{NAME}-x7k2p")
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    pod["spec"] = {"containers": [], "volumes": [claim], **spec}
    return pod


def test_a_cause_is_said_within_ten_seconds() -> None:
    assert LOOK_AFTER_SECONDS + LIFE_SECONDS + POLL_SECONDS <= SAID_WITHIN_SECONDS


@pytest.mark.parametrize("kube", [Cluster, Hidden], indirect=True)
def test_a_claim_has_its_newest_event_also_where_it_may_not_be_read(kube: Kube) -> None:
    pods = PendingPods(kube)
    for _ in range(2):
        [reason] = pods.explain([(build_object("Job", {}), build_pod())]).values()
        assert reason.line == (
            f"{IS_NOT}: {NOT_FOUND}: kubectl --context c describe pvc data -n ns"
        )


@pytest.mark.parametrize("kube", [Cluster], indirect=True)
def test_what_no_node_takes_is_looked_at_at_once(kube: Kube) -> None:
    """Else the first reason is that of somebody who may list nothing."""
    pod = build_pod()
    pod["metadata"]["creationTimestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    [reason] = PendingPods(kube).explain([(build_object("Job", {}), pod)]).values()
    assert reason.message == f"{IS_NOT}: {NOT_FOUND}"


@pytest.mark.parametrize("kube", [Cluster], indirect=True)
def test_the_doctor_judges_a_claim_by_itself(kube: Kube) -> None:
    case = Case(kube, parse_cluster({}), job={"spec": {"template": build_pod()}})
    found = examine_all([*list_object_checks(case)])[-1]
    assert (found.subject, found.severity) == (f"{CLAIM.kind} data", Severity.UNKNOWN)
    assert found.message == "is not bound yet (Pending)"
    assert found.fix == "kubectl describe pvc data -n ns --context c"
