"""The settings that docs/clusters.md gives for each kind of cluster make agents as it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from deployer.executors.plan import build_plan
from deployer.executors.registry import find_executor
from tests.project_files import read_project

PAGE = (Path(__file__).parents[2] / "docs/clusters.md").read_text()
SETTINGS = dict(re.findall(r"^## (.+?)$.*?```yaml\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL))


def build_pod(folder: Path, cluster: str) -> dict[str, Any]:
    (folder / "deployer.yaml").write_text(SETTINGS[cluster])
    plan = build_plan("team/digits/ab12cd34", "http://server", str(folder), 1)
    manifests = find_executor(read_project(folder)).preview(plan)
    [job] = [one for one in manifests if isinstance(one, dict) and one["kind"] == "Job"]
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize("cluster", ["kind", "k3s", "EKS", "AKS", "OpenShift"])
def test_every_kind_of_cluster_has_settings(tmp_path: Path, cluster: str) -> None:
    assert build_pod(tmp_path, cluster)["containers"]


def test_what_each_needs_is_in_the_pod(tmp_path: Path) -> None:
    assert build_pod(tmp_path, "k3s")["runtimeClassName"] == "nvidia"
    assert build_pod(tmp_path, "OpenShift")["securityContext"]["runAsUser"] == 1000640000
    assert build_pod(tmp_path, "kind")["containers"][0]["imagePullPolicy"] == "Never"
    [toleration] = build_pod(tmp_path, "AKS")["tolerations"]
    assert toleration["key"] == "sku"
    labels = build_pod(tmp_path, "EKS")["nodeSelector"]
    assert labels == {"karpenter.k8s.aws/instance-gpu-name": "l40s"}
