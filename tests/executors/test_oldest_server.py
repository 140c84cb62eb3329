"""Every field that is sent is one that Kubernetes 1.24 knows, but for two of a Job.

A server drops what it does not know of an object that is created, and Jobs are: server-side apply
would refuse them.

`kubernetes_1_24.json` has the fields of each object with the object below them. They are those of
the official Python client 24.2.0, which is made from the OpenAPI document of Kubernetes 1.24.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.executors.test_privileges import ROOT, list_files, list_objects

Manifest = dict[str, Any]
DROPPED = {"spec.podFailurePolicy", "spec.podReplacementPolicy"}
SCHEMA: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).with_name("kubernetes_1_24.json")).read_text()
)
# Of others, whose versions are not Kubernetes' own.
FOREIGN = ("kueue.x-k8s.io", "kustomize.config.k8s.io")


def list_unknown(value: Any, kind: str, path: str = "") -> Iterator[str]:
    """Yield the paths of fields that an object of this kind does not have."""
    if isinstance(value, list):
        for one in value:
            yield from list_unknown(one, kind, path)
    elif isinstance(value, dict) and kind:
        for name, below in value.items():
            here = f"{path}.{name}".lstrip(".")
            if name in SCHEMA[kind]:
                yield from list_unknown(below, SCHEMA[kind][name], here)
            else:
                yield here


def find_unknown(manifest: Manifest) -> set[str]:
    if manifest["apiVersion"].startswith(FOREIGN):
        return set()
    return set(list_unknown(manifest, f"V1{manifest['kind']}"))


@pytest.mark.parametrize("file", list_files(), ids=lambda file: str(file.relative_to(ROOT)))
def test_the_oldest_server_knows_every_field(file: Path) -> None:
    for one in list_objects(file):
        assert find_unknown(one) <= (DROPPED if one["kind"] == "Job" else set())


def test_a_field_of_a_newer_server_would_be_noticed() -> None:
    [job] = list_objects(ROOT / "k8s/agent.yaml")
    assert find_unknown(job) == DROPPED
    job["spec"]["template"]["spec"]["containers"][0]["resizePolicy"] = []
    job["spec"]["template"]["spec"]["volumes"][0]["image"] = {"reference": "x"}
    assert find_unknown(job) - DROPPED == {
        "spec.template.spec.containers.resizePolicy",
        "spec.template.spec.volumes.image",
    }
