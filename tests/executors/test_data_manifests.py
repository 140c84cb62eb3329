"""Data sets in a cluster: the loader's manifests, claims, and what an agent mounts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.config.kubernetes import ClusterConfig
from deployer.errors import ConfigError
from deployer.executors.kubernetes.data.loader import (
    LoaderTask,
    build_loader,
    load_loader_templates,
)
from deployer.executors.kubernetes.data.mounts import add_data, build_claim, count_size, name_claim
from deployer.executors.kubernetes.manifests.templates import find_folder, load_documents
from tests.executors.profiles import PROFILES, build
from tests.executors.test_owned_fields import find_differences, find_marks, find_owner
from tests.golden_files import check_golden
from tests.sections import parse_cluster, parse_data

FOLDER = Path("/home/me/project")
DATA = """
- {path: /data/cifar10, claim: cifar10, sub_path: images, size: 2Gi}
- {name: mnist, path: /data/mnist, nfs: {server: nas.example, path: /export/mnist}}
- {name: cats, path: /data/cats, url: "s3://datasets/cats.zip", secret: minio}
- {name: own, path: /data/own, folder: files, read_only: false}
- {name: old, path: /data/old, nfs: {server: nas.example, path: /export/old, inline: true}}
"""
TASK = LoaderTask(
    "12ab", "me/0/1", "0" * 64, {"persistentVolumeClaim": {"claimName": "cifar10"}}, "images"
)


def build_task(task: LoaderTask = TASK, **changes: Any) -> tuple[dict[str, Any], ...]:
    section = {**yaml.safe_load(PROFILES["everything_else"]), "namespace": "sweeps"}
    section |= {"tolerations": [{"key": "gpu"}], "node_selector": {"a": "b"}}
    return build_loader(load_loader_templates(), task, parse_cluster({**section, **changes}), b"p")


def test_goldens() -> None:
    check_golden("data_loader.yaml", yaml.safe_dump_all(build_task(), sort_keys=False))
    sets = parse_data(yaml.safe_load(DATA))
    cluster = add_data(parse_cluster({"image": "trainer:1"}), sets, FOLDER)
    check_golden("data_agents.yaml", yaml.safe_dump_all(build(cluster), sort_keys=False))


@pytest.mark.parametrize(("number", "kind"), [(0, "Job"), (1, "ConfigMap")])
def test_python_changes_all_marked_fields_of_a_loader_and_no_others(number: int, kind: str) -> None:
    marks = find_marks((find_folder() / "data-loader.yaml").read_text())[number]
    template = load_loader_templates()[number]
    if kind == "Job":
        template["spec"]["activeDeadlineSeconds"] = 7
    of_nfs = replace(TASK, source={"nfs": {"server": "nas.example", "path": "/export"}})
    changes = {"image": "other:2", "python": "python3.9", "generate_name": False}
    changes["image_pull_policy"] = None  # which no line has
    differences = [
        path
        for task in (TASK, of_nfs)
        for path in find_differences("", template, build_task(task, **changes)[number])
    ]
    assert {find_owner(path, marks) for path in differences} == marks


def test_python_changes_all_marked_fields_of_a_claim_and_no_others() -> None:
    file = find_folder() / "data-claim.yaml"
    [marks] = find_marks(file.read_text())
    wish = {"storage_class": "fast", "access_mode": "ReadWriteOnce"}
    [data] = parse_data({"path": "/data", "claim": "mine", **wish})
    built = build_claim("mine", "sweeps", data, "2Gi")
    differences = find_differences("", load_documents(file)[0], built)
    assert {find_owner(path, marks) for path in differences} == marks
    [plain] = parse_data({"path": "/data", "claim": "mine"})
    assert "storageClassName" not in build_claim("mine", None, plain, "2Gi")["spec"]


def test_a_claim_is_as_large_as_what_is_brought_needs() -> None:
    claim, _, archive, own, _ = parse_data(yaml.safe_load(DATA))
    assert count_size(own, 1) == "1Gi"
    assert count_size(claim, 10 << 30) == "12Gi"
    assert count_size(archive, 10 << 30) == "50Gi"  # unpacked it may be much more
    assert count_size(replace(archive, unpack=False), 10 << 30) == "12Gi"


def test_what_is_brought_to_the_cluster_has_a_claim_of_its_own() -> None:
    _, _, cats, own, _ = parse_data(yaml.safe_load(DATA))
    names = {name_claim(one, FOLDER) for one in (cats, own, replace(cats, url="s3://other"))}
    names |= {name_claim(cats, FOLDER), name_claim(own, FOLDER), name_claim(own, Path("/other"))}
    assert len(names) == 4


def test_a_volume_in_the_way_of_a_data_set_is_named() -> None:
    volume = {"name": "mine", "mount_path": "/data/cifar10", "empty_dir": {}}
    cluster = parse_cluster({"image": "trainer:1", "volumes": [volume]})
    with pytest.raises(ConfigError) as caught:
        add_data(cluster, parse_data(yaml.safe_load(DATA)), FOLDER)
    said = "deployer.yaml: kubernetes.volumes: a data set also has the path '/data/cifar10'"
    assert caught.value.message == said


def test_a_loader_without_image_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"kubernetes\.image: is missing"):
        build_loader(load_loader_templates(), TASK, ClusterConfig(), b"")
