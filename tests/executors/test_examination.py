"""What is judged of objects that are not made on the test cluster: versions, queues, rights."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from deployer.errors import EDIT, Finding, Severity
from deployer.executors.kubernetes.diagnose.case import Case
from deployer.executors.kubernetes.diagnose.doctor import (
    judge_claim,
    judge_namespace,
    judge_version,
)
from deployer.executors.kubernetes.diagnose.facts import Queue
from deployer.executors.kubernetes.diagnose.image import (
    PULL_TYPES,
    compare_gpus,
    judge_type,
)
from deployer.executors.kubernetes.diagnose.queue import (
    explain_queue,
    judge_priority,
    judge_queues,
)
from deployer.executors.kubernetes.diagnose.rights import (
    RUN_AGENTS,
    WITHOUT,
    Right,
    describe_right,
    judge_rights,
)
from deployer.executors.kubernetes.diagnose.view import HIDDEN
from deployer.images.image import ARCHITECTURES_LABEL, OLDER
from deployer.kube.client import open_kube
from deployer.kube.objects import parse_quantity, read_quantity
from tests.executors.edits import follow
from tests.executors.profiles import build_profile
from tests.sections import parse_cluster

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:9"}}]
users: [{name: u, user: {token: none}}]
contexts: [{name: c, context: {cluster: c, user: u, namespace: research}}]
current-context: c
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    return file


def build_case(kubeconfig: Path, pods: int = 1, **section: object) -> Case:
    kube = open_kube(environment={"KUBECONFIG": str(kubeconfig)})
    job = build_profile("gpus", "research")[-1]
    return Case(kube, parse_cluster({"image": "trainer:1", **section}), job=job, pods=pods)


def show(findings: Iterable[Finding]) -> list[str]:
    return [f"{one.severity}: {one.message} | {one.fix}" for one in findings]


@pytest.mark.parametrize(
    ("version", "severity"),
    [
        ("v1.23.17", Severity.WARNING),
        ("v1.24.0", Severity.OK),
        ("v1.34.10-gke.1", Severity.OK),
        ("v2.0.0", Severity.OK),
        ("unknown", Severity.UNKNOWN),
    ],
)
def test_servers_are_supported_from_1_24_on(version: str, severity: Severity) -> None:
    assert judge_version("context c", version).severity is severity


def test_a_namespace_that_is_being_deleted_takes_no_agents(kubeconfig: Path) -> None:
    ending = {"metadata": {"deletionTimestamp": "2026-11-22T10:00:00Z"}}
    assert show([judge_namespace(build_case(kubeconfig), ending)]) == [
        "error: is being deleted | "
        "kubectl wait --for=delete namespace/research --timeout=5m --context c"
    ]


def test_a_pull_secret_of_another_type_is_wrong(kubeconfig: Path) -> None:
    case = build_case(kubeconfig)

    def judge(kind: str) -> Finding | None:
        return judge_type(case, {"metadata": {"name": "site"}, "type": kind})

    assert [judge(kind) for kind in PULL_TYPES] == [None, None]
    found = judge("Opaque")
    assert found
    assert found.severity is Severity.WARNING
    assert found.fix.startswith("kubectl create secret generic site-pull -n research")
    assert found.fix.endswith("kubernetes: {image_pull_secrets: [site-pull]} in deployer.yaml")


LOST = {"type": "Active", "status": "False", "reason": "ClusterQueueDoesNotExist"}


def queue(name: str, **status: object) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"clusterQueue": "all"}, "status": status}


def test_queues_are_judged(kubeconfig: Path) -> None:
    def said(wanted: str | None, *queues: dict[str, Any]) -> list[str]:
        section = {"queue": wanted} if wanted else {}
        return show(judge_queues(build_case(kubeconfig, **section), queues))

    stopped = {"type": "Active", "status": "False", "reason": "Stopped", "message": "it is held"}
    lost = {**stopped, "reason": "ClusterQueueDoesNotExist"}
    assert said(None) == []
    assert said(None, queue("research-user-queue")) == [
        "unknown: this namespace has research-user-queue, but the agents use none | "
        "kubernetes: {queue: research-user-queue} in deployer.yaml"
    ]
    assert said("research-queue", queue("research-user-queue")) == [
        "warning: is not in namespace research; there is research-user-queue | "
        "kubernetes: {queue: research-user-queue} in deployer.yaml"
    ]
    assert said("gpus", queue("gpus", conditions=[stopped])) == [
        "unknown: admits nothing: it is held | "
        "kubectl describe localqueue gpus -n research --context c"
    ]
    assert said("gpus", queue("gpus", conditions=[lost])) == [
        "error: points to ClusterQueue all, which is missing | "
        "ask an administrator for ClusterQueue all"
    ]
    assert said("gpus", queue("gpus", pendingWorkloads=2)) == ["ok: takes Jobs; 2 wait in it | "]
    # Kueue puts Jobs without a queue into the one that is called so.
    assert said(None, queue("default"), queue("gpus")) == ["ok: takes Jobs; 0 wait in it | "]


@pytest.mark.parametrize(
    "queues",
    [
        (),
        (queue("research-user-queue"),),
        (queue("cpus"), queue("gpu")),
        (queue("zzz"),),
        (queue("gpus", conditions=[LOST]),),
        (queue("gpus", conditions=[LOST]), queue("gpu")),
    ],
    ids=lambda queues: ",".join(one["metadata"]["name"] for one in queues) or "none",
)
def test_the_doctor_says_of_a_queue_what_a_waiting_agent_says(
    kubeconfig: Path, queues: tuple[dict[str, Any], ...]
) -> None:
    section: dict[str, Any] = {"queue": "gpus"}
    case = build_case(kubeconfig, **section)
    [found] = judge_queues(case, queues)
    by_name = {one["metadata"]["name"]: one for one in queues}
    job: dict[str, Any] = {"metadata": {}}
    waited_for = Queue("gpus", by_name.get("gpus"), names=tuple(by_name))
    reason = explain_queue(job, waited_for, "research")
    assert f"{found.subject} {found.message}" == reason.message
    assert (found.severity is not Severity.UNKNOWN, found.fix) == (reason.is_permanent, reason.fix)
    if found.fix.endswith(EDIT):
        edited = follow(found.fix, section)
        assert edited.queue in by_name.keys() - {"gpus"}


def test_the_queue_that_the_doctor_proposes_is_accepted(kubeconfig: Path) -> None:
    [found] = judge_queues(build_case(kubeconfig), [queue("gpus"), queue("cpus")])
    assert follow(found.fix, {}).queue == "cpus"


@pytest.mark.parametrize(
    ("text", "amount"),
    [("500m", 0.5), ("2", 2), ("4Gi", 4 * 2**30), ("1e3", 1000), ("5M", 5e6), ("100n", 1e-7)],
)
def test_amounts_are_read_as_kubernetes_writes_them(text: str, amount: float) -> None:
    assert parse_quantity(text) == read_quantity(text) == pytest.approx(amount)


@pytest.mark.parametrize(
    ("section", "found"),
    [
        (
            {"gpu": {"product": "Tesla-V100-SXM2-16GB"}},
            [
                "unknown: the image's PyTorch has no kernels for Tesla-V100-SXM2-16GB (sm_70): "
                f"it has sm_75 | {OLDER}"
            ],
        ),
        ({"gpu": {"product": "Tesla-T4"}}, []),
        ({"gpu": {"product": "Tesla-V100-SXM2-16GB", "count": 0}}, []),
    ],
)
def test_a_gpu_without_kernels_is_named(
    kubeconfig: Path, section: dict[str, Any], found: list[str]
) -> None:
    labels = {ARCHITECTURES_LABEL: "sm_75"}
    assert show(compare_gpus(build_case(kubeconfig, **section), labels)) == found


def test_a_claim_is_judged_by_its_phase_and_its_modes(kubeconfig: Path) -> None:
    def say(phase: str, pods: int, *modes: str) -> str:
        claim = {"metadata": {"name": "data"}, "status": {"phase": phase}}
        claim["spec"] = {"accessModes": [*modes]}
        return show([judge_claim(build_case(kubeconfig, pods), claim)])[0]

    look = "kubectl describe pvc data -n research --context c"
    assert say("Bound", 1, "ReadWriteOnce") == "ok: is bound | "
    assert say("Bound", 2, "ReadWriteMany") == "ok: is bound | "
    assert say("Bound", 2, "ReadWriteOnce") == (
        f"unknown: is bound for one node (ReadWriteOnce): agents on others wait | {look}"
    )
    assert say("Pending", 1) == f"unknown: is not bound yet (Pending) | {look}"


def test_a_priority_class_in_the_queue_is_looked_for() -> None:
    missing = judge_priority("urgnt", None)
    assert missing.severity is Severity.WARNING
    assert missing.fix == "ask an administrator: kubectl get workloadpriorityclasses"
    assert judge_priority("urgent", HIDDEN).severity is Severity.UNKNOWN
    assert judge_priority("urgent", {"metadata": {}}).severity is Severity.OK


@pytest.mark.parametrize("missing", [*RUN_AGENTS.rights, *WITHOUT], ids=describe_right)
def test_each_right_that_is_missing_is_named(kubeconfig: Path, missing: Right) -> None:
    case = build_case(kubeconfig)
    [found] = judge_rights(case, [missing])
    cost = WITHOUT.get(missing, "agents cannot be started or stopped")
    assert found.message == f"you may not {describe_right(missing)}: {cost}"
    assert found.severity is (Severity.ERROR if missing in RUN_AGENTS.rights else Severity.UNKNOWN)
    assert found.fix.startswith("ask an administrator: deployer rights agents | kubectl apply ")
