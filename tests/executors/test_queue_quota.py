"""What of an agent its Kueue queue can never give: resources, amounts, nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deployer.executors.kubernetes.examination.queue_quota import Quotas, judge_quotas
from deployer.findings import Severity
from tests.executors.edits import follow
from tests.executors.test_examination import build_case, kubeconfig

__all__ = ["kubeconfig"]
PRODUCT = "nvidia.com/gpu.product"
ENOUGH = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"}


def build_quotas(
    amounts: dict[str, str], product: str = "", key: str = PRODUCT, **more: object
) -> Quotas:
    resources = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
    group = {
        "coveredResources": list(amounts),
        "flavors": [{"name": "a100", "resources": resources}],
    }
    labels = {key: product} if product else {}
    flavor = {"metadata": {"name": "a100"}, "spec": {"nodeLabels": labels}}
    return Quotas({"spec": {"resourceGroups": [group], **more}}, {"a100": flavor})


def judge(kubeconfig: Path, quotas: Quotas | None, *reserved: str) -> list[tuple[str, str, str]]:
    """Judge the profile `gpus`: four GPUs of an H100's node."""
    flavor = {"name": "a100", "resources": [{"name": name} for name in reserved]}
    queue: dict[str, Any] = {"metadata": {"name": "q"}, "status": {"flavorsReservation": [flavor]}}
    gpu = {"count": 4, "product": "NVIDIA-H100-80GB-HBM3"}
    found = judge_quotas(build_case(kubeconfig, gpu=gpu), queue, quotas)
    return [(one.severity, one.message, one.fix) for one in found]


def test_what_is_there_in_all_is_enough(kubeconfig: Path) -> None:
    assert judge(kubeconfig, build_quotas(ENOUGH, "NVIDIA-H100-80GB-HBM3")) == []
    assert judge(kubeconfig, None) == []
    assert judge(kubeconfig, None, *ENOUGH) == []


@pytest.mark.parametrize("seen", [True, False], ids=["administrator", "tenant"])
def test_a_gpu_that_is_not_counted_is_never_given(kubeconfig: Path, seen: bool) -> None:
    amounts = {"cpu": "8", "memory": "64Gi", "nvidia.com/mig-1g.5gb": "8"}
    [found] = judge(kubeconfig, build_quotas(amounts) if seen else None, *amounts)
    assert found == (
        Severity.ERROR,
        "has no nvidia.com/gpu at all; there is nvidia.com/mig-1g.5gb",
        "kubernetes: {gpu: {resource: nvidia.com/mig-1g.5gb}} in deployer.yaml",
    )


def test_kueue_may_leave_out_what_is_no_gpu(kubeconfig: Path) -> None:
    found = judge(kubeconfig, build_quotas({"nvidia.com/gpu": "8"}))
    assert {verdict for verdict, _, _ in found} == {Severity.UNKNOWN}


def test_more_than_there_is_in_all_is_told_with_the_amount(kubeconfig: Path) -> None:
    small = {**ENOUGH, "nvidia.com/gpu": "2"}
    assert judge(kubeconfig, build_quotas(small)) == [
        (
            Severity.ERROR,
            "has 2 nvidia.com/gpu of a100 in all, and an agent asks for 4",
            "kubernetes: {gpu: {count: 2}} in deployer.yaml",
        )
    ]
    assert judge(kubeconfig, build_quotas(small, cohortName="all")) == []


def test_nodes_that_no_flavor_has_are_told(kubeconfig: Path) -> None:
    assert judge(kubeconfig, build_quotas(ENOUGH, "A100")) == [
        (
            Severity.ERROR,
            "has no nodes that fit its selector: its flavor is a100",
            "kubernetes: {gpu: {product: A100}} in deployer.yaml",
        )
    ]


@pytest.mark.parametrize(
    ("resource", "most"), [("cpu", "100m"), ("memory", "1Gi"), ("nvidia.com/gpu", "2")]
)
def test_asking_for_what_there_is_in_all_is_an_edit_that_is_accepted(
    kubeconfig: Path, resource: str, most: str
) -> None:
    [(_, _, fix)] = judge(kubeconfig, build_quotas({**ENOUGH, resource: most}))
    edited = follow(fix, {"queue": "q", "queue_priority": "urgent"})
    assert (edited.queue, edited.queue_priority) == ("q", "urgent")


def test_what_only_a_template_asks_for_has_no_edit(kubeconfig: Path) -> None:
    case = build_case(kubeconfig)
    assert case.job
    container = case.job["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["requests"]["ephemeral-storage"] = "20Gi"
    quotas = build_quotas({**ENOUGH, "ephemeral-storage": "10Gi"})
    [found] = judge_quotas(case, {"metadata": {"name": "q"}}, quotas)
    assert found.fix == "ask for at most 10Gi ephemeral-storage"


def test_the_nodes_of_a_flavor_are_an_edit_that_is_accepted(kubeconfig: Path) -> None:
    """Values of labels are text, also where YAML would read something else."""
    case = build_case(kubeconfig, node_selector={"spot": "false"})
    assert case.pod
    case.pod["spec"]["nodeSelector"] = {"spot": "false"}
    quotas = build_quotas(ENOUGH, "true", key="spot")
    [found] = judge_quotas(case, {"metadata": {"name": "q"}}, quotas)
    assert follow(found.fix, {"queue": "q"}).node_selector == {"spot": "true"}
