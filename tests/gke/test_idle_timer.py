"""The timer that deletes a cluster that nobody uses: when it does, and what it needs for it."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.config.credentials import UNKNOWN_OWNER, Owner
from deployer.executors.gke.idle_timer import (
    DISK_DRIVER,
    LISTS,
    STATE,
    USED_AT,
    find_last_end,
    find_use,
    main,
)
from deployer.executors.gke.timer import (
    PERMISSIONS,
    ROLE,
    build_timer,
    check_role,
    describe_grant,
)
from deployer.kube.objects import read_owner
from tests.gke.cloud import PROJECT, Cloud
from tests.gke.cloud_faults import Fault, busy, internal, permission
from tests.gke.rooms import open_client
from tests.gke.specs import GOOD, HEAD, complain, parse
from tests.golden_files import check_golden

ZONE = "us-central1-a"
DISK = f"projects/{PROJECT}/zones/{ZONE}/disks/pvc-1"
SPEC = parse(f"{HEAD}delete_when_idle: 2h\n{GOOD}")
OWNER = "0123456789abcdef"
ME = Owner(OWNER, "me")
NOW = 1_800_000_000.0
EARLIER, LATELY = "2020-01-01T00:00:00Z", "2027-01-15T07:50:00Z"  # a moment before NOW
ENDED = {"type": "Complete", "status": "True"}


def build(name: str, namespace: str = "default", **parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "status": {}, "spec": {}, **parts}


def end_container(at: str) -> dict[str, Any]:
    return {
        "phase": "Succeeded",
        "containerStatuses": [{"state": {"terminated": {"finishedAt": at}}}],
    }


RUNNING = {"phase": "Running"}
FINISHED = {"conditions": [{**ENDED, "lastTransitionTime": EARLIER}]}


OWN = {
    "app.kubernetes.io/managed-by": "deployer",
    "app.kubernetes.io/component": "backend",
    "deployer.dev/owner": OWNER,
}


def label(one: dict[str, Any], **changes: str | None) -> dict[str, Any]:
    """Label an object as the owner's backend, or as one that differs in a label."""
    known = {**OWN, **{f"deployer.dev/{name}": value for name, value in changes.items()}}
    one["metadata"]["labels"] = {name: value for name, value in known.items() if value}
    return one


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        ({}, ""),
        ({"pods": [build("dns", "kube-system", status=RUNNING)]}, ""),
        ({"pods": [build("collector", "gmp-system", status=RUNNING)]}, ""),
        ({"pods": [build("agent", "gke-managed-system", status=RUNNING)]}, ""),
        ({"pods": [build("idle-timer-1", "deployer-timer", status=RUNNING)]}, ""),
        ({"pods": [label(build("sweep-backend-0", status=RUNNING))]}, ""),
        ({"claims": [label(build("sweep-backend"))]}, ""),
        ({"pods": [build("agent", status=RUNNING)]}, "pod default/agent is Running"),
        ({"pods": [build("agent", status={"phase": "Pending"})]}, "pod default/agent is Pending"),
        ({"pods": [build("own", "gke", status=RUNNING)]}, "pod gke/own is Running"),
        (
            {"pods": [label(build("other-0", status=RUNNING), owner="another")]},
            "pod default/other-0 is Running",
        ),
        ({"pods": [build("agent", status=end_container(EARLIER))]}, ""),
        ({"pods": [build("agent", status=end_container(LATELY))]}, ""),
        ({"jobs": [build("agent")]}, "job default/agent is not finished"),
        ({"jobs": [build("agent", status=FINISHED)]}, ""),
        ({"claims": [build("sweep-backend")]}, "claim default/sweep-backend holds data"),
        ({"claims": [label(build("of"), owner="another")]}, "claim default/of holds data"),
        ({"claims": [label(build("of"), owner=None)]}, "claim default/of holds data"),
        ({"claims": [build("of", "kube-system")]}, "claim kube-system/of holds data"),
        ({"services": [build("web", spec={"type": "ClusterIP"})]}, ""),
        (
            {"services": [build("web", spec={"type": "LoadBalancer"})]},
            "service default/web has a load balancer",
        ),
    ],
)
def test_a_cluster_in_use_or_with_others_data_stays(objects: dict[str, Any], said: str) -> None:
    everything = {kind: objects.get(kind, []) for kind in LISTS}
    assert find_use(everything, OWNER) == said


def test_it_is_idle_from_the_last_end_on() -> None:
    nothing: dict[str, Any] = {kind: [] for kind in LISTS}
    assert find_last_end(nothing) == 0.0
    ended = build("agent", status=end_container(LATELY))
    own = build("own", "deployer-timer", status=end_container("2027-01-15T07:59:00Z"))
    there = {**nothing, "jobs": [build("old", status=FINISHED)], "pods": [ended, own]}
    assert find_last_end(there) == NOW - 600


class Answers(ThreadingHTTPServer):
    """The Kubernetes of a cluster."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, list[dict[str, Any]]] = {path: [] for path in LISTS.values()}
        self.state: dict[str, str] = {}
        self.may_patch = True

    def add_backend(self, handle: str = DISK, driver: str = DISK_DRIVER) -> dict[str, Any]:
        """Add a backend's claim in the namespace `lab`; return the specification of its volume."""
        source = {"driver": driver, "volumeHandle": handle}
        spec = {"persistentVolumeReclaimPolicy": "Delete", "csi": source}
        claim = label(build("sweep-backend", "lab", spec={"volumeName": "pvc-1"}))
        self.objects[LISTS["claims"]] = [claim]
        self.objects[LISTS["volumes"]] = [build("pvc-1", "", spec=spec)]
        return spec


class Handler(BaseHTTPRequestHandler):
    server: Answers

    def do_GET(self) -> None:
        objects = self.server.objects
        state = {"data": self.server.state}
        self.answer(200, state if self.path == STATE else {"items": objects[self.path]})

    def do_PATCH(self) -> None:
        change = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == STATE:
            self.server.state.update(change["data"])
        elif self.server.may_patch:
            volumes, name = self.path.rsplit("/", 1)
            [volume] = self.server.objects[volumes]
            assert volume["metadata"]["name"] == name
            volume["spec"].update(change["spec"])
            volume["metadata"].update(change["metadata"])
        else:
            self.answer(403, {"message": "you may not"})
            return
        self.answer(200, {})

    def answer(self, status: int, content: Any) -> None:
        assert self.headers["Authorization"] == "Bearer of-kubernetes"
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def answers() -> Iterator[Answers]:
    with Answers() as served:
        threading.Thread(target=served.serve_forever, args=(0.02,), daemon=True).start()
        yield served
        served.shutdown()


@dataclass(frozen=True)
class Timer:
    """A timer in a cluster of the cloud; `read` returns what its log says since the last time."""

    cloud: Cloud
    folder: Path
    kubernetes: Answers
    read: Callable[[], list[str]]

    def run(self, now: float = NOW) -> int:
        """Run what the CronJob runs, with the settings of its manifest."""
        (self.folder / "token").write_text("of-kubernetes\n")
        made = self.cloud.get_cluster("lab")
        job = build_timer(SPEC, PROJECT, ZONE, NOW - 7200, made.resource_labels, ME)[-1]
        [container] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
        settings = {one["name"]: one["value"] for one in container["env"]}
        google, host = self.cloud.compute_url, f"127.0.0.1:{self.kubernetes.server_address[1]}"
        places = {
            "KUBERNETES_SERVICE_HOST": "",
            "KUBERNETES_SERVICE_PORT": "",
            "KUBERNETES_URL": f"http://{host}",
            "CONTAINER_URL": google,
            "COMPUTE_URL": google,
            "GCE_METADATA_HOST": google.removeprefix("http://"),
        }
        return main({**settings, **places}, self.folder, now)


@pytest.fixture
def timer(
    cloud: Cloud, answers: Answers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Timer:
    """Return the timer of a running cluster of ours, in a cloud without a delay."""
    cloud.set_operation_seconds(0.0)
    ours = {"managed-by": "deployer", "deployer-cluster": "lab", "deployer-owner": "me"}
    cloud.add_foreign_cluster("lab", ZONE, {**ours, "deployer-expires": "20261125-1405z"})
    return Timer(cloud, tmp_path, answers, lambda: capsys.readouterr().out.splitlines())


def test_an_idle_cluster_goes_and_its_results_stay(timer: Timer) -> None:
    """The disk is kept and labelled first, and the labels are read back; others' stay as well."""
    volume = timer.kubernetes.add_backend()
    timer.cloud.add_disk("pvc-1", ZONE, cluster="lab", labels={"team": "vision"})
    assert timer.run() == 0
    assert timer.read() == [
        f"the cluster stays: the labels of {DISK}, which holds results, are being written"
    ]
    assert volume["persistentVolumeReclaimPolicy"] == "Retain"
    assert timer.kubernetes.objects[LISTS["volumes"]][0]["metadata"]["labels"] == OWN
    assert timer.run() == 0
    assert timer.read() == ["the cluster is idle and is being deleted"]
    left = timer.cloud.inventory()
    assert (left.clusters, left.disks) == ((), (f"{ZONE}/pvc-1",))
    assert timer.cloud.changes == ("disks.setLabels", "DeleteCluster")
    labels = timer.cloud.read_labels("pvc-1")
    wanted = {"managed-by": "deployer", "deployer-cluster": "lab", "deployer-owner": "me"}
    wanted |= {"deployer-holds": "results", "deployer-namespace": "lab", "team": "vision"}
    assert wanted.items() <= labels.items()


@pytest.mark.parametrize("refused", ["labels", "volume", "driver"])
def test_results_that_cannot_be_kept_keep_the_cluster(timer: Timer, refused: str) -> None:
    timer.kubernetes.add_backend(driver="nfs" if refused == "driver" else DISK_DRIVER)
    timer.cloud.add_disk("pvc-1", ZONE, cluster="lab")
    timer.kubernetes.may_patch = refused != "volume"
    timer.cloud.fail("disks.setLabels", permission("compute.disks.setLabels"), times=math.inf)
    codes = [timer.run(), timer.run()]
    said = {*timer.read()}
    if refused == "driver":
        assert codes == [0, 0]
        where = "but not on a Compute Engine disk"
        assert said == {f"the cluster stays: claim lab/sweep-backend holds results, {where}"}
    else:
        assert codes == [1, 1]
        [line] = said
        assert line.startswith("the cluster is not deleted: http://")
        assert ("you may not" if refused == "volume" else "compute.disks.setLabels") in line
    assert len(timer.cloud.inventory().clusters) == 1


@pytest.mark.parametrize(
    ("fault", "code"), [(permission(), 1), (busy("other"), 0), (internal(), 1)]
)
def test_a_refusal_is_in_its_log(timer: Timer, fault: Fault, code: int) -> None:
    """Without the right the Job fails; another operation on the cluster is waited for."""
    timer.cloud.fail("DeleteCluster", fault)
    assert timer.run() == code
    [line] = timer.read()
    assert line.startswith("the cluster is not deleted: http://")
    assert json.dumps(fault.message) in line


def test_the_last_use_counts_although_no_trace_of_it_is_left(timer: Timer) -> None:
    """Google is asked for nothing until then; agents may be dismissed and started anew."""
    timer.kubernetes.objects[LISTS["pods"]] = [build("agent", status=RUNNING)]
    assert timer.run() == 0
    assert timer.kubernetes.state == {USED_AT: f"{NOW:.0f}"}
    timer.kubernetes.objects[LISTS["pods"]] = []
    assert timer.run(NOW + 7199) == 0
    assert timer.read() == [
        "the cluster stays: pod default/agent is Running",
        "the cluster stays: idle for 7199 s of 7200",
    ]
    assert timer.cloud.calls == ()
    assert timer.run(NOW + 7200) == 0
    assert timer.cloud.changes == ("DeleteCluster",)


@pytest.mark.parametrize("case", ["granted", "cluster alone", "of another", "refused"])
def test_whether_the_timer_has_its_role_is_said(timer: Timer, case: str) -> None:
    """One line, and unless the policy gives it all it needs, the commands that do."""
    gke, cloud = open_client(), timer.cloud
    member = f"principal://x/workloadIdentityPools/{PROJECT}.svc.id.goog/subject/ns/deployer-timer"
    role = f"projects/{PROJECT}/roles/{ROLE}"
    [condition] = re.findall("expression=(.*)'", describe_grant(SPEC, PROJECT)[1])
    given = PERMISSIONS[:1] if case == "cluster alone" else PERMISSIONS
    limit = condition.replace("/lab", "/other") if case == "of another" else condition
    cloud.grant(f"{member}/sa/idle-timer", role, given, limit)
    if case == "refused":
        cloud.fail("policy.get", permission("resourcemanager.projects.getIamPolicy"))
    first, *commands = check_role(gke, SPEC)
    assert (
        commands == []
        if case == "granted"
        else [*describe_grant(SPEC, PROJECT)] == [command.strip() for command in commands]
    )
    assert first.startswith(
        {
            "granted": "the timer may delete the cluster: the project's policy says so",
            "cluster alone": "the timer may not delete the cluster: it lacks compute.disks.get, ",
            "of another": "the timer may not delete the cluster: it lacks container.clusters.",
            "refused": "could not check whether the timer may delete the cluster: cannot read "
            f"projects/{PROJECT}:getIamPolicy: Required",
        }[case]
    )
    assert cloud.changes == ()


def test_what_the_timer_is_and_may() -> None:
    spec = parse(f"{HEAD}project: lab-12\ndelete_when_idle: 2h\n{GOOD}")
    manifests = build_timer(spec, "lab-12", "us-central1-a", 0.0)
    program = manifests[-2]["data"].pop("idle_timer.py")
    assert "def find_use(" in program
    made = [*manifests, manifests[-1]["spec"]["jobTemplate"]]
    assert [read_owner(one) for one in made] == [UNKNOWN_OWNER] * len(made)
    grant = "".join(f"# {line}\n" for line in describe_grant(spec, "lab-12"))
    check_golden("gke/timer.txt", grant + yaml.safe_dump_all(manifests, sort_keys=False))


def test_without_the_key_there_is_no_timer() -> None:
    assert build_timer(parse(HEAD + GOOD), "lab-12", "us-central1-a", 0.0) == ()
    [(said, _)] = complain(f"{HEAD}delete_when_idle: 5m\n{GOOD}")
    assert said == "lab.yaml:3: delete_when_idle: is shorter than 600s"
