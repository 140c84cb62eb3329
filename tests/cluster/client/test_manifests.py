"""A real API server takes every manifest, and kubectl alone brings the base to life."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.dynamic.exceptions import DynamicApiError

from deployer.__main__ import run
from deployer.executors.kubernetes.manifests.templates import find_folder
from deployer.images.code_archive import build_supervisor_zip
from tests.cluster.cluster import IMAGE, Cluster, connect
from tests.cluster.tenants import make_tenant
from tests.executors.profiles import PROFILES, build_profile

SWEEP = Path(__file__).parents[3] / "sweeps/digits.yaml"


def send(cluster: Cluster, manifest: dict[str, Any], namespace: str) -> Any:
    """Create a manifest without effect; the server validates every field by its schema."""
    kind = cluster.client.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
    options = {"dry_run": "All", "query_params": [("fieldValidation", "Strict")]}
    return kind.create(body=manifest, namespace=namespace if kind.namespaced else None, **options)


@pytest.mark.parametrize("name", PROFILES)
def test_server_takes_every_profile(cluster: Cluster, namespace: str, name: str) -> None:
    for manifest in build_profile(name, namespace):
        made = send(cluster, manifest, namespace).to_dict()
        assert made["kind"] == manifest["kind"]


def test_a_field_that_does_not_exist_would_be_noticed(cluster: Cluster, namespace: str) -> None:
    job = build_profile("plain", namespace)[-1]
    job["spec"]["template"]["spec"]["containers"][0]["imagePullPolice"] = "Always"
    with pytest.raises(DynamicApiError, match="unknown field"):
        send(cluster, job, namespace)


@pytest.mark.parametrize("file", sorted(find_folder().glob("*.yaml")), ids=lambda path: path.name)
def test_server_takes_the_templates_as_they_stand(
    cluster: Cluster, namespace: str, file: Path
) -> None:
    if file.name == "kustomization.yaml":
        assert yaml.safe_load(file.read_text())["resources"] == ["agent.yaml"]
        return
    for manifest in yaml.safe_load_all(file.read_text()):
        manifest["metadata"].pop("namespace", None)
        if manifest["kind"] == "PersistentVolume":
            manifest["spec"]["claimRef"]["namespace"] = namespace
        assert send(cluster, manifest, namespace).to_dict()["kind"] == manifest["kind"]


def test_kubectl_takes_what_plan_prints(
    cluster: Cluster,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    section = {"image": "trainer:1", "namespace": namespace}
    (tmp_path / "deployer.yaml").write_text(yaml.safe_dump({"kubernetes": section}))
    (tmp_path / "noise.bin").write_bytes(os.urandom(800 * 1024))  # near the limit of a ConfigMap
    monkeypatch.chdir(tmp_path)
    assert run(["plan", str(SWEEP), "--on", "kubernetes", "--replicas", "2"]) == 0
    printed = capsys.readouterr().out
    said = cluster.kubectl("apply", "--server-side", "-f", "-", stdin=printed).splitlines()
    kinds = [line.partition("/")[0] for line in said]
    beside = ["persistentvolumeclaim", "service", "networkpolicy.networking.k8s.io"]
    backend = [*beside, *["configmap"] * 2, "statefulset.apps"]
    assert kinds == [*backend, *["configmap"] * 3, "job.batch", "job.batch"]


def test_restricted_namespace_with_a_quota_takes_the_pods(cluster: Cluster, namespace: str) -> None:
    tenant = connect(make_tenant(cluster, namespace))
    pods = tenant.resources.get(api_version="v1", kind="Pod")
    for name in ("plain", "image_code", "no_gpu"):
        job = build_profile(name, namespace)[-1]
        template = job["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]}
        pod["metadata"] = {**template["metadata"], "name": "agent"}
        made = pods.create(body=pod, namespace=namespace, dry_run="All")
        assert made.spec.containers[0].resources.limits.cpu in ("1", "250m")


def test_kubectl_alone_brings_the_base_to_life(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    base = tmp_path / "k8s"
    shutil.copytree(find_folder(), base, ignore=shutil.ignore_patterns("*.zip", "*.gz"))
    (base / "agent.zip").write_bytes(build_supervisor_zip())
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    container = "/spec/template/spec/containers/0"
    patch = [
        {"op": "replace", "path": f"{container}/image", "value": IMAGE},
        {"op": "replace", "path": f"{container}/resources", "value": {}},
        {"op": "test", "path": f"{container}/env/3/name", "value": "DEPLOYER_SWEEP_PATH"},
        {"op": "replace", "path": f"{container}/env/3/value", "value": "no-path"},
        {"op": "replace", "path": f"{container}/command/0", "value": sys.executable},
    ]
    kustomization = {
        "namespace": namespace,
        "resources": ["../k8s"],
        "patches": [{"target": {"kind": "Job"}, "patch": json.dumps(patch)}],
    }
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    look = ("-n", namespace)
    cluster.kubectl(
        "create", "secret", "generic", "wandb-secret", f"--from-literal=secret={'k' * 40}", *look
    )
    cluster.kubectl("apply", "-k", str(overlay))
    cluster.wait_for("job/agent-1", "condition=Failed", namespace)
    # The supervisor ran from its ConfigMap, and its exit code 78 ended the Job at the first try.
    said = cluster.kubectl("logs", "job/agent-1", *look)
    assert "'no-path' is not ENTITY/PROJECT/SWEEP_ID" in said
    job = json.loads(cluster.kubectl("get", "job", "agent-1", "-o", "json", *look))
    assert job["status"]["failed"] == 1
    reasons = {one["reason"] for one in job["status"]["conditions"]}
    assert "PodFailurePolicy" in reasons
