"""On which volume of a cluster outputs are kept, and what runs are told about it."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from deployer.config.sections.kubernetes import ClusterConfig
from deployer.errors import DataError
from deployer.executors.kubernetes.data.outputs import find_outputs
from deployer.executors.kubernetes.manifests.fields import Manifest
from deployer.executors.kubernetes.manifests.templates import Templates, load_templates
from tests.executors.profiles import TEMPLATES, build, replace_section

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
    [({"persistentVolumeClaim": {"claimName": "mine"}}, "mine"), ({"emptyDir": {}}, None)],
)
def test_a_template_may_have_the_volume(source: Manifest, claim: str | None) -> None:
    found = find_outputs(ClusterConfig(image="x"), replace_templates(source))
    assert (found.claim if found else None) == claim


def test_a_volume_that_no_loader_mounts_is_refused() -> None:
    with pytest.raises(DataError, match="a volume of the kind hostPath, which deployer does not"):
        find_outputs(ClusterConfig(image="x"), replace_templates({"hostPath": {"path": "/x"}}))
