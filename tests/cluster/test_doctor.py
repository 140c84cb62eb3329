"""What `doctor` says of broken clusters and namespaces; its remedies, pasted, mend them."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.config.image_reference import Repository
from deployer.executors.findings import Finding, Verdict
from deployer.images.registry import Registry
from deployer.images.registry_credentials import Credentials
from deployer.launch.doctor import diagnose
from deployer.wandb_api.server import Server
from tests.cluster.bed import SECTION, serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.gpu_nodes import A100, GPU, PRODUCT, add_node
from tests.cluster.site_registry import PULL_SECRET
from tests.images.registry import PASSWORD, USER, RunningRegistry, serve_registry
from tests.project_files import read_project

EDIT = re.compile(r"(.*) in deployer\.yaml")
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
# Nodes have this machine's image; nobody is asked for it.
BASE: Mapping[str, Any] = {**SECTION, "image_pull_policy": "Never"}
TAINTED = "Doctor-Tainted"
BARE = "Doctor-Bare"
MIG = {"count": 1, "resource": "nvidia.com/mig-1g.5gb", "product": A100}


def limit_range(**limit: Mapping[str, str]) -> dict[str, Any]:
    spec = {"limits": [{"type": "Container", **limit}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": spec}


def quota(**hard: str) -> dict[str, Any]:
    named = {name.replace("__", "/").replace("_", "."): value for name, value in hard.items()}
    metadata = {"name": "team"}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": {"hard": named},
    }


def secret(name: str, **values: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": values,
    }


def claim(name: str, storage_class: str) -> dict[str, Any]:
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": spec,
    }


@dataclass(frozen=True)
class Broken:
    """Settings and objects that do not fit together, and all that is said to be wrong.

    `says` are sentences by code, or part of one. `pasted`: the remedies mend it.
    """

    says: Mapping[str, str]
    section: Mapping[str, Any] = field(default_factory=dict)
    objects: Sequence[Mapping[str, Any]] = ()
    label: str = ""
    pasted: bool = True
    replicas: int = 1


GPU_NODES = "gpu-0, gpu-1"
CASES = {
    "quota-cpu": Broken(
        {"quota": "an agent asks for 0.4 requests.cpu, and the quota allows 200m"},
        objects=[quota(requests_cpu="200m")],
    ),
    "quota-gpu": Broken(
        {"quota": "an agent asks for 2 requests.nvidia.com/gpu, and the quota allows 1"},
        {"gpu": {"count": 2}},
        [quota(requests_nvidia_com__gpu="1")],
    ),
    "limit-range-most": Broken(
        {"limits": "a container may have 100m cpu at most"},
        objects=[limit_range(max={"cpu": "100m"})],
    ),
    "limit-range-least": Broken(
        {"limits": "a container must have 1Gi memory at least"},
        objects=[limit_range(min={"memory": "1Gi"})],
    ),
    "quota-and-limit-range": Broken(
        {
            "quota": "an agent asks for 0.5Gi limits.memory, and the quota allows 256Mi",
            "limits": "a container may have 100m cpu at most",
        },
        objects=[quota(limits_memory="256Mi"), limit_range(max={"cpu": "100m"})],
    ),
    "no-such-resource": Broken(
        {"gpu": "no node has nvidia.com/mig-1g.5gb; there is nvidia.com/gpu"}, {"gpu": MIG}
    ),
    "no-such-product": Broken(
        {"selector": f"no node has {PRODUCT}=NVIDIA-A100-SXM4-80GB; there is "},
        {"gpu": {"product": "NVIDIA-A100-SXM4-80GB"}},
    ),
    "too-many-gpus": Broken(
        {"gpu": "an agent asks for 9 nvidia.com/gpu, and no node has more than 8"},
        {"gpu": {"count": 9, "product": A100}},
    ),
    "no-such-label": Broken(
        {"selector": "no node has kubernetes.io/hostname=node-9; there is "},
        {"node_selector": {"kubernetes.io/hostname": "node-9"}},
    ),
    "taint": Broken(
        {"taint": "taint team=vision:NoSchedule of node doctor-tainted keeps agents off"},
        {"gpu": {"product": TAINTED}},
    ),
    "driver": Broken(
        {"driver": "the device plugin is missing on node doctor-bare"},
        {"gpu": {"product": BARE}},
        pasted=False,
    ),
    "claim-missing": Broken(
        {"claim": "is missing"},
        {"volumes": [{"name": "checkpoints", "pvc": "nowhere"}]},
        pasted=False,  # it is made, and nobody here gives it a volume
    ),
    "claim-unbound": Broken(
        {"claim": "is not bound: there is no StorageClass gold, and no volume fits"},
        {"volumes": [{"name": "checkpoints", "pvc": "waits"}]},
        [claim("waits", "gold")],
        pasted=False,
    ),
    "secret-missing": Broken(
        {"secret": "is missing"}, {"secrets": {"TOKEN": {"name": "hub", "key": "t"}}}
    ),
    "secret-key-missing": Broken(
        {"secret-key": "has no key t"},
        {"secrets": {"TOKEN": {"name": "hub", "key": "t"}}},
        [secret("hub", other="x")],
    ),
    "config-map-missing": Broken(
        {"config-map": "is missing"},
        {"volumes": [{"name": "settings", "config_map": "lists", "mount_path": "/lists"}]},
    ),
    "service-account-missing": Broken(
        {"service-account": "is missing"}, {"service_account": "trainer"}
    ),
    "priority-class-missing": Broken(
        {"priority-class": "is missing; there is doctor-high"}, {"priority_class": "doctor-hihg"}
    ),
    "host-ipc-forbidden": Broken(
        {"pod-security": 'forbids the agents: "restricted:'}, {"host_ipc": True}, label=RESTRICTED
    ),
    "nfs-forbidden": Broken(
        {"pod-security": "restricted volume types"},
        {
            "volumes": [
                {
                    "name": "data",
                    "mount_path": "/data",
                    "nfs": {"server": "nfs.example", "path": "/d", "inline": True},
                }
            ]
        },
        label=RESTRICTED,
    ),
    "account-and-quota-and-policy": Broken(
        {
            "service-account": "is missing",
            "quota": "an agent asks for 0.4 requests.cpu, and the quota allows 200m",
            "pod-security": "forbids the agents",
        },
        {"service_account": "trainer", "host_ipc": True},
        [quota(requests_cpu="200m")],
        RESTRICTED,
    ),
}


@dataclass(frozen=True)
class Bench:
    """A project folder, the namespace that it names, and a user's shell."""

    cluster: Cluster
    folder: Path
    environment: Mapping[str, str]

    def write(self, content: Mapping[str, Any]) -> None:
        (self.folder / "deployer.yaml").write_text(yaml.safe_dump(dict(content)))

    def examine(self) -> list[Finding]:
        project = read_project(self.folder, None, **self.environment)
        return list(diagnose(project, None, deep=False))

    def list_wrong(self) -> dict[str, Finding]:
        return {one.code: one for one in self.examine() if one.verdict is Verdict.WRONG}

    def paste(self, remedy: str) -> None:
        """Do what a remedy says, to the letter: type it, or write it into deployer.yaml."""
        edited = EDIT.fullmatch(remedy)
        if edited:
            file = self.folder / "deployer.yaml"
            self.write(merge(yaml.safe_load(file.read_text()), yaml.safe_load(edited[1])))
            return
        tools = self.cluster.programs["kubectl"].parent
        path = f"{tools}:{os.environ['PATH']}"
        environment = {**self.environment, "PATH": path, "HOME": str(self.folder), "TOKEN": "x"}
        environment["KUBECONFIG"] = str(self.cluster.kubeconfig)
        done = subprocess.run(
            ["bash", "-c", remedy], cwd=self.folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{remedy}: {done.stdout}{done.stderr}"


def merge(old: Any, new: Any) -> Any:
    """Return YAML with an edit made in it; `null` takes a key away."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {name: merge(old.get(name), value) for name, value in {**old, **new}.items()} | {
        name: merge(old.get(name), value) for name, value in new.items()
    }


@pytest.fixture(scope="module")
def server(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve_for_pods(cluster, tmp_path_factory.mktemp("backend") / "data") as serving:
        yield serving


@pytest.fixture(scope="module")
def site(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    """Run a registry with one image, `team/trainer:v1`."""
    with serve_registry(tmp_path_factory.mktemp("site"), cluster.host) as running:
        push_image(running)
        yield running


def push_image(running: RunningRegistry) -> None:
    login = Credentials(USER, PASSWORD, "the test")
    registry = Registry(Repository(running.address, "team/trainer"), login, str(running.ca))
    config = b"{}"
    digest = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    folder = running.folder / "config.json"
    folder.write_bytes(config)
    registry.put_blob(digest, len(config), lambda: folder.open("rb"))
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = {
        "schemaVersion": 2,
        "mediaType": kind,
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": digest,
            "size": len(config),
        },
        "layers": [],
    }
    registry.put_manifest("v1", kind, json.dumps(manifest).encode())


@pytest.fixture(scope="module", autouse=True)
def nodes(cluster: Cluster) -> Iterator[None]:
    """Add nodes with GPUs, one that is tainted for others and one without a driver."""
    names = cluster.add_gpu_nodes(2, prefix="doctor")
    add_node(cluster, "doctor-tainted", {PRODUCT: TAINTED}, {GPU: 4})
    cluster.kubectl("taint", "node", "doctor-tainted", "team=vision:NoSchedule")
    add_node(cluster, "doctor-bare", {PRODUCT: BARE, "nvidia.com/gpu.present": "true"}, {})
    cluster.kubectl("create", "priorityclass", "doctor-high", "--value=10")
    yield
    cluster.kubectl("delete", "node", *names, "doctor-tainted", "doctor-bare")
    cluster.kubectl("delete", "priorityclass", "doctor-high")


@pytest.fixture
def bench(cluster: Cluster, server: Server, tmp_path: Path) -> Bench:
    (tmp_path / "train.py").touch()
    environment = {
        "KUBECONFIG": str(cluster.kubeconfig),
        "WANDB_BASE_URL": server.url,
        "WANDB_API_KEY": server.client.key,
    }
    return Bench(cluster, tmp_path, environment)


def build(namespace: str, **changes: object) -> dict[str, Any]:
    return {"on": "kubernetes", "kubernetes": {**BASE, "namespace": namespace, **changes}}


def test_a_cluster_that_fits_has_nothing_wrong(
    bench: Bench, cluster: Cluster, namespace: str
) -> None:
    bench.write(build(namespace, gpu={"product": A100}))
    before = cluster.kubectl("get", "all,cm,secrets,pvc", "-n", namespace, "-o", "name")
    found = bench.examine()
    assert [one for one in found if one.verdict is not Verdict.RIGHT] == []
    assert cluster.kubectl("get", "all,cm,secrets,pvc", "-n", namespace, "-o", "name") == before


@pytest.mark.parametrize("broken", CASES.values(), ids=list(CASES))
def test_what_is_broken_is_named_and_its_remedy_mends_it(
    bench: Bench, cluster: Cluster, namespace: str, broken: Broken
) -> None:
    for manifest in broken.objects:
        cluster.create(manifest, namespace)
    if broken.label:
        cluster.kubectl("label", "namespace", namespace, broken.label)
    bench.write(build(namespace, **broken.section))
    wrong = bench.list_wrong()
    assert set(wrong) == set(broken.says)
    for code, said in broken.says.items():
        assert said in wrong[code].sentence
    if broken.pasted:
        for one in wrong.values():
            bench.paste(one.remedy)
        assert bench.list_wrong() == {}


def test_a_namespace_that_is_missing_is_made_as_said(bench: Bench, cluster: Cluster) -> None:
    name = f"{bench.folder.name[:30].replace('_', '-')}-new"
    bench.write(build(name, gpu={"product": "H100"}))
    wrong = bench.list_wrong()
    assert {code: one.sentence for code, one in wrong.items()} == {
        "namespace": "is missing",
        "selector": wrong["selector"].sentence,
    }
    for one in wrong.values():
        bench.paste(one.remedy)
    assert bench.list_wrong() == {}
    cluster.kubectl("delete", "namespace", name, "--wait=false")


def test_an_image_is_asked_of_its_registry(
    bench: Bench, cluster: Cluster, namespace: str, site: RunningRegistry
) -> None:
    repository = f"{site.address}/team/trainer"
    pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    (bench.folder / ".docker").mkdir()
    login = {"auths": {site.address: {"auth": pair}}}
    (bench.folder / ".docker/config.json").write_text(json.dumps(login))
    ca = {"DEPLOYER_REGISTRY_CA": str(site.ca)}
    bench = Bench(cluster, bench.folder, {**bench.environment, **ca})

    def write(tag: str, **changes: object) -> None:
        image = {"image": f"{repository}:{tag}", "image_pull_policy": "IfNotPresent"}
        bench.write(build(namespace, **image, **changes))

    def only() -> tuple[str, str, str]:
        [(code, one)] = bench.list_wrong().items()
        return code, one.sentence, one.remedy

    write("v1")
    code, said, remedy = only()
    assert (code, said) == (
        "pull-secret",
        "its registry wants a login, and deployer.yaml names no pull secret",
    )
    write("v1", image_pull_secrets=[PULL_SECRET])
    code, said, remedy = only()
    assert (code, said) == ("pull-secret", "the pull secret is missing")
    bench.paste(remedy)
    assert bench.list_wrong() == {}
    wrong = {"auths": {site.address: {"auth": base64.b64encode(b"carol:wrong").decode()}}}
    cluster.kubectl("delete", "secret", PULL_SECRET, "-n", namespace)
    refused = secret(PULL_SECRET, **{".dockerconfigjson": json.dumps(wrong)})
    cluster.create({**refused, "type": "kubernetes.io/dockerconfigjson"}, namespace)
    code, said, remedy = only()
    assert (code, said) == ("pull-secret", f"the login of Secret {PULL_SECRET} is refused")
    bench.paste(remedy)
    write("v2", image_pull_secrets=[PULL_SECRET])
    code, said, remedy = only()
    assert (code, said) == ("image", "the registry has no tag v2; there is v1")
    bench.paste(remedy)
    assert bench.list_wrong() == {}
