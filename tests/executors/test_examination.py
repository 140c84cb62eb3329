"""What is judged of objects that are not made on the test cluster: versions, queues, rights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.config.sections.backend import BackendConfig
from deployer.executors.kubernetes.diagnose.case import Case
from deployer.executors.kubernetes.diagnose.doctor import judge_namespace, judge_version
from deployer.executors.kubernetes.diagnose.facts import Queue
from deployer.executors.kubernetes.diagnose.image import (
    PULL_TYPES,
    compare_gpus,
    judge_type,
)
from deployer.executors.kubernetes.diagnose.needs import (
    judge_claim,
    judge_classes,
    list_storage_classes,
)
from deployer.executors.kubernetes.diagnose.queue import explain_queue, judge_queues
from deployer.executors.kubernetes.diagnose.quota import (
    count_usage,
    judge_quota,
)
from deployer.executors.kubernetes.diagnose.rights import (
    RUN_AGENTS,
    WITHOUT,
    Right,
    describe_right,
    judge_rights,
)
from deployer.executors.kubernetes.diagnose.view import HIDDEN
from deployer.findings import EDIT, Finding, Severity
from deployer.images.architectures import ARCHITECTURES_LABEL, OLDER
from deployer.kube.client import open_kube
from deployer.kube.names import QUEUE_PRIORITY_LABEL
from deployer.kube.quantities import format_quantity, parse_quantity, read_quantity
from tests.executors.edits import follow
from tests.executors.profiles import build_profile
from tests.sections import parse_cluster, parse_data

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
        "unknown: this namespace has research-user-queue, and the agents are in none | "
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
        "error: leads to ClusterQueue all, which is missing | "
        "ask an administrator for ClusterQueue all"
    ]
    assert said("gpus", queue("gpus", conditions=[lost]), queue("cpus")) == [
        "error: leads to ClusterQueue all, which is missing | "
        "kubernetes: {queue: cpus} in deployer.yaml"
    ]
    assert said("gpus", queue("gpus", pendingWorkloads=2)) == ["ok: takes Jobs; 2 wait in it | "]
    # Kueue puts Jobs without a queue into the one that is called so.
    assert said(None, queue("default"), queue("gpus")) == ["ok: takes Jobs; 0 wait in it | "]


@pytest.mark.parametrize("priority", [None, "urgent"])
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
    kubeconfig: Path, queues: tuple[dict[str, Any], ...], priority: str | None
) -> None:
    section: dict[str, Any] = {"queue": "gpus", "queue_priority": priority}
    case = build_case(kubeconfig, **section)
    [found] = judge_queues(case, queues)
    by_name = {one["metadata"]["name"]: one for one in queues}
    job = {"metadata": {"labels": {QUEUE_PRIORITY_LABEL: priority} if priority else {}}}
    waited_for = Queue("gpus", by_name.get("gpus"), names=tuple(by_name))
    reason = explain_queue(job, waited_for, "research")
    assert f"{found.subject} {found.message}" == reason.message
    assert (found.severity is not Severity.UNKNOWN, found.fix) == (reason.is_permanent, reason.fix)
    if found.fix.endswith(EDIT):
        edited = follow(found.fix, section)
        assert edited.queue in (by_name.keys() - {"gpus"} or {None})
        assert edited.queue_priority == (priority if edited.queue else None)


def test_the_queue_that_the_doctor_proposes_is_accepted(kubeconfig: Path) -> None:
    [found] = judge_queues(build_case(kubeconfig), [queue("gpus"), queue("cpus")])
    assert follow(found.fix, {}).queue == "cpus"


def quota(hard: str, used: str = "0", resource: str = "requests.nvidia.com/gpu") -> dict[str, Any]:
    status = {"hard": {resource: hard}, "used": {resource: used}}
    return {"metadata": {"name": "team"}, "status": status}


def test_a_quota_has_room_now_or_later_or_never(kubeconfig: Path) -> None:
    def said(pods: int, *quotas: str, size: int = 1) -> str:
        case = build_case(kubeconfig, pods, agents_per_pod=size)
        return show([judge_quota(case, quota(*quotas))])[0]

    assert count_usage(build_case(kubeconfig).job or {})["requests.nvidia.com/gpu"] == 4
    look = "kubectl get resourcequota -n research --context c"
    assert said(2, "8") == "ok: has room for 2 agents now | "
    assert said(3, "8") == (
        "unknown: 2 of 3 agents fit at a time (8 requests.nvidia.com/gpu); the others wait for "
        f"them | {look}"
    )
    assert said(2, "8", "1") == (
        "unknown: 1 of 2 agents fit now: 1 of 8 requests.nvidia.com/gpu are used; the others wait "
        f"| {look}"
    )
    jobs = judge_quota(build_case(kubeconfig, 3), quota("1", resource="count/jobs.batch"))
    assert jobs.message == (
        "1 of 3 agents fit at a time (1 count/jobs.batch); the server refuses the others"
    )
    assert said(2, "8", size=4) == "ok: has room for 2 pods now | "
    assert said(3, "8", size=4).startswith("unknown: 2 of 3 pods fit at a time")
    assert said(1, "1", size=4) == said(1, "1")
    assert said(1, "1") == (
        "warning: allows 1 requests.nvidia.com/gpu, and a pod asks for 4 | "
        "kubernetes: {gpu: {count: 1}} in deployer.yaml"
    )
    none = judge_quota(build_case(kubeconfig), quota("0", resource="pods"))
    assert show([none]) == [
        "warning: allows 0 pods, and a pod asks for 1 | "
        "ask an administrator: kubectl edit resourcequota team -n research --context c"
    ]


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


def test_what_is_no_amount_counts_nothing(kubeconfig: Path) -> None:
    assert read_quantity("8GB") == 0.0
    case = build_case(kubeconfig)
    assert case.job
    container = case.job["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["requests"] = {"memory": "8GB"}  # as a template of one's own may say
    found = judge_quota(case, quota("4Gi", resource="requests.memory"))
    assert (found.severity, found.message) == (Severity.OK, "limits nothing that pods use")


@pytest.mark.parametrize(
    ("amount", "text"),
    [(2, "2"), (0.5, "500m"), (4 * 2**30, "4Gi"), (1.5 * 2**30, "1536Mi"), (100 * 2**20, "100Mi")],
)
def test_amounts_are_written_as_kubernetes_does(amount: float, text: str) -> None:
    assert format_quantity(amount) == text


def test_classes_of_claims_that_are_made(kubeconfig: Path) -> None:
    case = build_case(kubeconfig)
    case = Case(case.kube, case.section, backend=BackendConfig())
    wanted = list_storage_classes(case)
    standard: dict[str, Any] = {"metadata": {"name": "standard"}}
    key = "storageclass.kubernetes.io/is-default-class"
    default: dict[str, Any] = {"metadata": {"name": "fast", "annotations": {key: "true"}}}
    assert show(judge_classes(wanted, [standard])) == [
        "warning: no StorageClass is the default; there is standard | "
        "backend: {storage_class: standard} in deployer.yaml"
    ]
    assert show(judge_classes(wanted, [])) == [
        "warning: no StorageClass is the default; there is none | "
        "ask an administrator for a StorageClass"
    ]
    assert show(judge_classes(wanted, [standard, default])) == ["ok: StorageClass fast is there | "]
    sets = [
        {"name": "a", "path": "/100%", "folder": "a"},
        {"name": "b", "path": "/b", "claim": "b"},
    ]
    case = Case(case.kube, case.section, data=parse_data(sets))
    [found] = judge_classes(list_storage_classes(case), [standard])
    assert found.fix == (
        "data: [{name: a, path: /100%, folder: a, storage_class: standard}, "
        "{name: b, path: /b, claim: b}] in deployer.yaml"
    )
    pasted = parse_data(yaml.safe_load(found.fix.removesuffix(" in deployer.yaml"))["data"])
    assert pasted == (replace(case.data[0], storage_class="standard"), case.data[1])
    by_hand = {"spec": {"storageClassName": "nfs"}, "status": {"phase": "Available"}}
    setting = {"backend: {storage_class: %s}": "nfs"}
    assert show(judge_classes(setting, [standard], [by_hand])) == [
        "ok: a PersistentVolume of class nfs is free | "
    ]
    assert show(judge_classes({"backend: {storage_class: %s}": "zzz"}, [standard])) == [
        "warning: StorageClass zzz not found; there is standard | "
        "backend: {storage_class: standard} in deployer.yaml"
    ]
    assert show(judge_classes(wanted, [])) == [
        "warning: no StorageClass is the default; there is none | "
        "ask an administrator for a StorageClass"
    ]
    [taken] = judge_classes(setting, [standard], [{**by_hand, "status": {"phase": "Bound"}}])
    assert taken.severity is Severity.WARNING
    waiting = {"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}
    first = {"volumeBindingMode": "WaitForFirstConsumer"}
    assert judge_claim(case, waiting, first).severity is Severity.OK
    assert judge_claim(case, waiting, HIDDEN).severity is Severity.UNKNOWN
    at_once = {"metadata": {"name": "fast"}, "volumeBindingMode": "Immediate"}
    look = "kubectl describe pvc data -n research --context c"
    assert show([judge_claim(case, waiting, at_once)]) == [f"unknown: is not bound yet | {look}"]
    assert show([judge_claim(case, waiting, HIDDEN)]) == [
        f"unknown: is not bound: it waits for a volume of StorageClass fast | {look}"
    ]
    assert judge_claim(case, waiting, None).severity is Severity.WARNING
    classless = {"metadata": {"name": "data"}, "spec": {}}
    assert judge_claim(case, classless, None).severity is Severity.UNKNOWN


@pytest.mark.parametrize("missing", [*RUN_AGENTS.rights, *WITHOUT], ids=describe_right)
def test_each_right_that_is_missing_is_named(kubeconfig: Path, missing: Right) -> None:
    case = build_case(kubeconfig)
    [found] = judge_rights(case, [missing])
    cost = WITHOUT.get(missing, "agents cannot start, or cannot be ended")
    assert found.message == f"you may not {describe_right(missing)}: {cost}"
    assert found.severity is (Severity.ERROR if missing in RUN_AGENTS.rights else Severity.UNKNOWN)
    assert found.fix.startswith("ask an administrator: deployer rights agents | kubectl apply ")
