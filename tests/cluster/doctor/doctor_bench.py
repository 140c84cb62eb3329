"""A project folder on the test cluster that the doctor examines, and whose remedies are done."""

from __future__ import annotations

import os
import re
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.errors import Finding, Severity
from deployer.launch.doctor import diagnose
from deployer.wandb_api.server import Server
from tests.cluster.bed import BIN, wait_for
from tests.cluster.cluster import Cluster
from tests.cluster.doctor.broken import BARE, BASE, TAINTED, WHOLE, Broken
from tests.cluster.gpu_nodes import GPU, PRODUCT, add_node
from tests.project_files import read_project

EDIT = re.compile(r"(.*) in deployer\.yaml")


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
        return list(diagnose(project, None))

    def list_wrong(self) -> dict[str, Finding]:
        """Return what stops `up`, and what agents would wait for."""
        wrong = (Severity.ERROR, Severity.WARNING)
        return {one.code: one for one in self.examine() if one.severity in wrong}

    def paste(self, remedy: str) -> None:
        """Do what a remedy says, to the letter: type it, or write it into deployer.yaml."""
        edited = EDIT.fullmatch(remedy)
        if edited:
            file = self.folder / "deployer.yaml"
            self.write(merge(yaml.safe_load(file.read_text()), yaml.safe_load(edited[1])))
            return
        tools = self.cluster.programs["kubectl"].parent
        path = f"{tools}:{BIN}:{os.environ['PATH']}"
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


# This and `nodes` are for the files that import them.
@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Return a cluster of our own: others count the nodes of theirs."""
    return make_cluster()


@pytest.fixture(scope="module", autouse=True)
def nodes(cluster: Cluster) -> Iterator[None]:
    """Add nodes with GPUs, one that is tainted for others and one without a driver."""
    own = f"doctor-{uuid.uuid4().hex[:6]}"
    names = cluster.add_gpu_nodes(2, product=WHOLE, prefix=own)
    add_node(cluster, f"{own}-tainted", {PRODUCT: TAINTED}, {GPU: 4})
    cluster.kubectl("taint", "node", f"{own}-tainted", "team=vision:NoSchedule")
    add_node(cluster, f"{own}-bare", {PRODUCT: BARE, "nvidia.com/gpu.present": "true"}, {})
    cluster.try_kubectl("create", "priorityclass", "doctor-high", "--value=10")
    yield
    cluster.kubectl("delete", "node", *names, f"{own}-tainted", f"{own}-bare")


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


def check_broken(bench: Bench, namespace: str, broken: Broken) -> None:
    """Show that what is broken is named, and that its remedies, pasted, mend it."""
    for manifest in broken.objects:
        bench.cluster.create(manifest, namespace)
    for manifest in broken.objects:
        if manifest["kind"] == "ResourceQuota":
            wait_until_counted(bench.cluster, namespace, manifest["metadata"]["name"])
    if broken.template:
        (bench.folder / "job.yaml").write_text(yaml.safe_dump(broken.template))
    if broken.label:
        bench.cluster.kubectl("label", "namespace", namespace, broken.label)
    bench.write(build(namespace, **broken.section))
    wrong = bench.list_wrong()
    assert set(wrong) == set(broken.says)
    for code, said in broken.says.items():
        assert said in wrong[code].message
    for code, remedy in broken.remedies.items():
        assert wrong[code].fix == remedy
    if broken.pasted:
        for one in wrong.values():
            bench.paste(one.fix)
        assert bench.list_wrong() == {}


def wait_until_counted(cluster: Cluster, namespace: str, quota: str) -> None:
    """Wait until the server knows what of a quota is used; until then it refuses everything."""
    used = ("get", "resourcequota", quota, "-n", namespace, "-o", "jsonpath={.status.used}")
    wait_for(lambda: cluster.kubectl(*used), f"quota {quota}")


def check_nothing_wrong(bench: Bench, namespace: str, **changes: object) -> None:
    """Show that nothing is wrong or unknown, and that nothing was made to find that out."""
    bench.write(build(namespace, **changes))
    look = ("get", "all,cm,secrets,pvc", "-n", namespace, "-o", "name")
    before = bench.cluster.kubectl(*look)
    found = bench.examine()
    assert [one for one in found if one.severity is not Severity.OK] == []
    assert bench.cluster.kubectl(*look) == before
