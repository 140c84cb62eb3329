"""A cluster in the user's kubeconfig: added beside what is there, and without a secret."""

from __future__ import annotations

import base64
import math
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.errors import CloudError, ConfigError, KubeError
from deployer.gke.api.model import CloudCluster
from deployer.gke.cluster.access import find_kubeconfig, open_kube_of, write_kubeconfig
from deployer.kube.kinds import POD
from tests.gke.cloud import Cloud
from tests.gke.cloud_faults import UNAVAILABLE
from tests.gke.rooms import open_client

NAME = "gke_my-project_us-central1-a_train"
OTHER: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "preferences": {"colors": True},
    "clusters": [{"name": "home", "cluster": {"server": "https://home"}}],
    "users": [{"name": "home", "user": {"token": "kept"}}],
    "contexts": [{"name": "home", "context": {"cluster": "home", "user": "home"}}],
    "current-context": "home",
}


def build_cluster(endpoint: str = "34.1.2.3", status: str = "RUNNING") -> CloudCluster:
    """Build a cluster that runs."""
    return CloudCluster(
        name="train",
        location="us-central1-a",
        status=status,
        endpoint=endpoint,
        ca_certificate=b"certificate",
        labels={},
        pools=(),
        conditions=(),
        created_at="",
        version="",
    )


def read(path: Path) -> dict[str, Any]:
    """Return a kubeconfig's content."""
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


def test_a_new_file_is_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config"
    assert write_kubeconfig(build_cluster(), "my-project", path) == NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = read(path)
    assert content["current-context"] == NAME
    [entry] = content["clusters"]
    assert entry["cluster"]["server"] == "https://34.1.2.3"
    assert base64.b64decode(entry["cluster"]["certificate-authority-data"]) == b"certificate"
    assert content["users"][0]["user"]["exec"]["command"] == "gke-gcloud-auth-plugin"
    assert "install" in content["users"][0]["user"]["exec"]["installHint"].lower()


def test_other_entries_stay_and_the_own_one_is_renewed(tmp_path: Path) -> None:
    path = tmp_path / "kube" / "config"
    path.parent.mkdir()
    path.write_text(yaml.safe_dump(OTHER))
    write_kubeconfig(build_cluster(), "my-project", path)
    content = read(path)
    content["contexts"][1]["context"]["namespace"] = "chosen"
    path.write_text(yaml.safe_dump(content))
    write_kubeconfig(build_cluster("35.0.0.1"), "my-project", path)
    content = read(path)
    assert content["preferences"] == OTHER["preferences"]
    for section in ("clusters", "users", "contexts"):
        assert content[section][0] == OTHER[section][0]
        assert [one["name"] for one in content[section]] == ["home", NAME]
    assert content["clusters"][1]["cluster"]["server"] == "https://35.0.0.1"
    assert content["contexts"][1]["context"]["namespace"] == "chosen"
    assert [one.name for one in path.parent.iterdir()] == ["config"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "real", tmp_path / "config"
    link.symlink_to(target)
    write_kubeconfig(build_cluster(), "my-project", link)
    assert link.is_symlink()
    assert read(target)["current-context"] == NAME


@pytest.mark.parametrize("text", ["- a list", "a: [", "\x00"])
def test_a_file_that_is_no_kubeconfig_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError) as told:
        write_kubeconfig(build_cluster(), "my-project", path)
    assert str(path) in told.value.message
    assert told.value.hint == "mend or move the file"
    assert path.read_text() == text


def test_the_file_is_the_one_that_kubectl_would_write(tmp_path: Path) -> None:
    assert find_kubeconfig({"KUBECONFIG": f":{tmp_path}/a:{tmp_path}/b"}) == tmp_path / "a"
    assert find_kubeconfig({}) == Path("~/.kube/config").expanduser()


def test_a_token_that_google_does_not_give_now_is_waited_for(cloud: Cloud) -> None:
    """A watcher waits where Kubernetes does not answer."""
    cloud.fail("Token", UNAVAILABLE, times=math.inf)
    kube = open_kube_of(open_client(), build_cluster(), None)
    with pytest.raises(KubeError, match="cannot get a token") as told:
        kube.list_objects(POD)
    assert told.value.passing


def test_a_cluster_without_an_address_is_not_opened(cloud: Cloud) -> None:
    assert cloud.project
    with pytest.raises(CloudError) as told:
        open_kube_of(open_client(), build_cluster("", "PROVISIONING"), None)
    said = "cluster train in us-central1-a is PROVISIONING: its Kubernetes has no address"
    assert told.value.message == said
    assert told.value.hint == "deployer gke up goes on with it"
