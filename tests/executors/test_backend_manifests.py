"""The backend's manifests: goldens, owned fields, the section `backend:`."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from deployer.config.kubernetes import ClusterConfig
from deployer.config.settings import BackendConfig
from deployer.errors import ConfigError
from deployer.executors.kubernetes.backend.deployment import (
    build_backend,
    load_backend_templates,
)
from deployer.executors.kubernetes.manifests.templates import find_folder
from tests.executors.test_owned_fields import find_differences, find_marks, find_owner
from tests.golden_files import check_golden
from tests.sections import parse_backend, parse_cluster

KINDS = ("PersistentVolumeClaim", "Service", "NetworkPolicy", "ConfigMap", "StatefulSet")
BACKEND = """
image: registry.example/tools:2
python: /opt/bin/python3
size: 50Gi
storage_class: fast
cpu: 1
memory: 4Gi
env: {TZ: UTC}
queue: ours
node_selector: {pool: cpu}
tolerations: [{key: cpu, operator: Exists}]
"""
CLUSTER = """
image: trainer:1
image_pull_policy: Always
image_pull_secrets: [registry]
namespace: sweeps
service_account: trainer
run_as_user: 2000
labels: {team: vision}
node_selector: {pool: gpu}
"""


def build(backend: str = "{}", cluster: str = "image: trainer:1") -> tuple[dict[str, Any], ...]:
    settings = parse_backend(yaml.safe_load(backend))
    section = parse_cluster(yaml.safe_load(cluster))
    return build_backend(load_backend_templates(), b"program", settings, section)


@pytest.mark.parametrize(("name", "texts"), [("plain", ()), ("full", (BACKEND, CLUSTER))])
def test_goldens(name: str, texts: tuple[str, ...]) -> None:
    shown = yaml.safe_dump_all(build(*texts), sort_keys=False)
    check_golden(f"backend_{name}.yaml", shown)


@pytest.mark.parametrize("kind", KINDS)
def test_python_changes_all_marked_fields_and_no_others(kind: str) -> None:
    number = KINDS.index(kind)
    marks = find_marks((find_folder() / "backend.yaml").read_text())[number]
    cluster = CLUSTER.replace("image_pull_policy: Always\n", "")  # which no line has
    template, built = load_backend_templates()[number], build(BACKEND, cluster)[number]
    assert built["kind"] == kind
    differences = find_differences("", template, built)
    assert {find_owner(path, marks) for path in differences} == marks


def test_the_agents_nodes_are_not_the_backends() -> None:
    *_, stateful_set = build(cluster=CLUSTER)
    pod = stateful_set["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {}
    assert pod["containers"][0]["image"] == "trainer:1"


def test_complaints() -> None:
    with pytest.raises(ConfigError) as raised:
        build_backend(load_backend_templates(), b"", BackendConfig(), ClusterConfig())
    assert raised.value.message == "deployer.yaml: backend.image: is missing"
    with pytest.raises(ConfigError) as several:
        parse_backend({"size": "much", "imgae": "a"})
    assert [one.text for one in several.value.findings] == [
        "deployer.yaml: backend.size: 'much' is not valid",
        "deployer.yaml: backend.imgae: unknown key",
    ]
