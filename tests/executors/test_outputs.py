"""On which volume of a cluster outputs are kept, and what runs are told about it."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.__main__ import run
from deployer.config.kubernetes import ClusterConfig
from deployer.errors import DataError
from deployer.executors.kubernetes.data.mounts import find_outputs
from deployer.executors.kubernetes.manifests.overlay import Manifest
from deployer.executors.kubernetes.manifests.templates import (
    Templates,
    load_templates,
    warn_about_spot,
)
from deployer.executors.plan import build_plan
from deployer.executors.registry import find_executor
from tests.executors.profiles import SWEEP_PATH, TEMPLATES, build, replace_section
from tests.project_files import read_project

# Of each profile: the claim and the folder in it, and what runs do with their outputs.
LASTING = {
    "plain": (None, None, "wandb"),
    "volumes": ("checkpoints", "outputs", ""),
    "own_checkpoints": ("team", "me/outputs", ""),
}


def find(cluster: ClusterConfig) -> tuple[str | None, str | None]:
    template = TEMPLATES / cluster.template if cluster.template else None
    found = find_outputs(cluster, load_templates(template))
    return (found.claim, found.sub_path) if found else (None, None)


def told(cluster: ClusterConfig) -> dict[str, str]:
    """Return the variables of an agent's container."""
    *_, job = build(cluster)
    [container] = job["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value", "") for one in container["env"]}


@pytest.mark.parametrize("name", LASTING)
def test_the_volume_of_checkpoints_has_the_outputs_if_it_lasts(name: str) -> None:
    cluster = replace_section(name)
    *place, kept_by = LASTING[name]
    assert find(cluster) == tuple(place)
    assert told(cluster)["DEPLOYER_OUTPUT_KEEP"] == kept_by


def test_a_folder_of_checkpoints_that_ends_with_the_pod_keeps_nothing() -> None:
    cluster = replace_section("plain", volumes=[{"name": "checkpoints", "empty_dir": {}}])
    assert find(cluster) == (None, None)
    assert told(cluster)["DEPLOYER_OUTPUT_KEEP"] == "wandb"


SPOT_POOL = {"cloud.google.com/gke-spot": "true"}


@pytest.mark.parametrize(
    ("changes", "spot"),
    [
        ({"node_selector": SPOT_POOL}, "cloud.google.com/gke-spot=true"),
        ({"node_selector": {"cloud.google.com/gke-spot": "false"}}, ""),
        ({"node_selector": {"eks.amazonaws.com/capacityType": "SPOT"}}, "capacityType=SPOT"),
        ({"tolerations": [{"key": "cloud.google.com/gke-spot", "operator": "Exists"}]}, "gke-spot"),
        ({"priority_class": "preemptible"}, "preemptible"),
        ({"priority_class": "non-preemptible"}, ""),
        ({"queue": "team", "queue_priority": "spot-low"}, "spot-low"),
        ({}, ""),
    ],
)
def test_spot_nodes_without_lasting_checkpoints_are_named(
    changes: dict[str, Any], spot: str
) -> None:
    def warn(**more: Any) -> str:
        *_, job = build(replace_section("plain", **changes, **more))
        return warn_about_spot(job)

    said = warn()
    assert bool(said) == bool(spot)
    assert f"{spot}) and no volume `checkpoints` outlives their pods" in said or not spot
    assert warn(volumes=[{"name": "checkpoints", "empty_dir": {}}]) == said
    assert warn(volumes=[{"name": "checkpoints", "pvc": "mine"}]) == ""


def test_a_template_may_choose_spot_nodes_by_affinity() -> None:
    [*_, job] = build(replace_section("plain"))
    term = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    job["spec"]["template"]["spec"]["affinity"] = affinity
    assert "(karpenter.sh/capacity-type=spot)" in warn_about_spot(job)
    term["operator"] = "NotIn"
    assert warn_about_spot(job) == ""


def write_spot_project(folder: Path, gpus: str = ", spot: true", more: str = "") -> None:
    """Write a project whose agents run in a cluster of ours with one choice of GPUs."""
    choice = f"{{accelerator: nvidia-tesla-t4, machine_type: n1-standard-8{gpus}}}"
    spec = f"name: lab\nlocation: us-central1-a\ngpus: [{choice}]\n"
    (folder / "lab.yaml").write_text(spec)
    section = f"kubernetes: {{image: x, code: image{more}}}\n"
    (folder / "deployer.yaml").write_text(f"gke: lab.yaml\n{section}")


@pytest.mark.parametrize(
    ("gpus", "more", "told"),
    [
        (", spot: true", "", "(gpu-1 of cluster lab) and no volume"),
        (", spot: true", ", gpu: 0", ""),
        (", spot: true", ", volumes: [{name: checkpoints, pvc: mine}]", ""),
        ("", "", ""),
    ],
)
def test_spot_pools_are_named_where_agents_ask_for_them(
    gpus: str, more: str, told: str, tmp_path: Path
) -> None:
    write_spot_project(tmp_path, gpus, more)
    plan = build_plan(SWEEP_PATH, "https://wandb.example", str(tmp_path), 2)
    said = find_executor(read_project(tmp_path), "gke").describe_runs(plan).warnings
    warnings = [line for line in said if "each preemption starts" in line]
    assert [told in line for line in warnings] == ([True] if told else [])


def test_plan_and_up_warn_of_spot_pools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`up` with what `plan` says: both ask the target, before anything is made."""
    write_spot_project(tmp_path)
    (tmp_path / "a.yaml").write_text("program: a.py\nmethod: grid\nparameters: {a: {value: 1}}\n")
    monkeypatch.chdir(tmp_path)
    assert run(["plan", "a.yaml", "--on", "gke", "--no-check"]) == 0
    out, err = capsys.readouterr()
    assert [document["kind"] for document in yaml.safe_load_all(out)][-1] == "Job"
    warnings = [line for line in err.splitlines() if "each preemption starts" in line]
    assert ["gpu-1 of cluster lab" in line for line in warnings] == [True]


def test_an_nfs_folder_is_found() -> None:
    nfs = {"server": "nas.example", "path": "/export/"}
    cluster = replace_section("plain", volumes=[{"name": "checkpoints", "nfs": nfs}])
    found = find_outputs(cluster, load_templates())
    assert found is not None
    assert found.nfs is not None
    assert (found.nfs.server, found.nfs.path) == ("nas.example", "/export/outputs")


def replace_templates(source: Manifest) -> Templates:
    """Return templates with an own one, whose volume for checkpoints has this source."""
    templates = load_templates()
    job = copy.deepcopy(templates.agent)
    pod = job["spec"]["template"]["spec"]
    others = [volume for volume in pod["volumes"] if volume["name"] != "checkpoints"]
    pod["volumes"] = [*others, {"name": "checkpoints", **source}]
    return replace(templates, template=job)


@pytest.mark.parametrize(
    ("source", "claim"),
    [
        ({"persistentVolumeClaim": {"claimName": "mine"}}, "mine"),
        ({"emptyDir": {}}, None),
        ({"ephemeral": {"volumeClaimTemplate": {}}}, None),
    ],
)
def test_a_template_may_have_the_volume(source: Manifest, claim: str | None) -> None:
    found = find_outputs(ClusterConfig(image="x"), replace_templates(source))
    assert (found.claim if found else None) == claim


def test_a_volume_that_no_loader_mounts_is_refused() -> None:
    with pytest.raises(DataError, match="a volume of the kind hostPath, which deployer does not"):
        find_outputs(ClusterConfig(image="x"), replace_templates({"hostPath": {"path": "/x"}}))
