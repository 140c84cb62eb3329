"""What is laid over a manifest takes the place of what is there, and of nothing else."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from deployer.executors.kubernetes.manifests.overlay import REMOVED, ReplacedList, overlay
from deployer.executors.kubernetes.manifests.templates import load_templates
from tests.executors.profiles import build, build_from, replace_section

QUEUE = "kueue.x-k8s.io/queue-name"
A, B = {"name": "a", "value": 1}, {"name": "b", "value": 2}


@pytest.mark.parametrize(
    ("base", "patch", "expected"),
    [
        ({"a": 1, "b": 2}, {"b": None, "c": 3}, {"a": 1, "b": 2, "c": 3}),
        ({"a": 1, "b": 2}, {"b": REMOVED}, {"a": 1}),
        ({"a": None}, {"a": {}, "b": [], "c": ""}, {"a": None, "c": ""}),
        ({"env": [A]}, {"env": [B]}, {"env": [A, B]}),
        ({"env": [A, B]}, {"env": [{"name": "a"}]}, {"env": [{"name": "a"}, B]}),
        ({"env": [A]}, {"env": ReplacedList([B])}, {"env": [B]}),
        ({"containers": [A]}, {"containers": [{"name": "a"}]}, {"containers": [A]}),
        ({"tolerations": [A]}, {"tolerations": [A]}, {"tolerations": [A, A]}),
        ({"command": ["a"]}, {"command": ["b"]}, {"command": ["b"]}),
        ({"labels": {"env": "x"}}, {"labels": {"env": "y"}}, {"labels": {"env": "y"}}),
        (None, {"labels": {"tolerations": "y"}}, {"labels": {"tolerations": "y"}}),
    ],
)
def test_overlay(base: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy(base)
    assert overlay(base, patch) == expected
    assert base == before


def test_labels_may_be_called_as_lists_are_and_name_a_queue() -> None:
    names = ("env", "volumes", "containers", "tolerations")
    labels = {**dict.fromkeys(names, "mine"), QUEUE: "theirs"}
    selector = dict.fromkeys(names, "mine")
    job = build(replace_section("plain", labels=labels, node_selector=selector))[-1]
    assert job["metadata"]["labels"].items() >= labels.items()
    pod = job["spec"]["template"]
    assert pod["metadata"]["labels"].items() >= labels.items()
    assert pod["spec"]["nodeSelector"] == selector


def test_variables_of_ours_that_are_not_needed_are_the_users() -> None:
    mine = {"DEPLOYER_AGENTS": "mine", "DEPLOYER_INSTALL_WANDB": "mine"}
    job = build(replace_section("plain", env=mine))[-1]
    [container] = job["spec"]["template"]["spec"]["containers"]
    found = {one["name"]: one.get("value") for one in container["env"]}
    assert found.items() >= mine.items()


def test_volumes_of_ours_in_a_template_are_filled_whole_or_stay() -> None:
    templates = load_templates()
    pod = templates.agent["spec"]["template"]["spec"]
    named = {volume["name"]: volume for volume in pod["volumes"]}
    code, memory = named["deployer-code"], named["shared-memory"]
    code["configMap"]["items"] = [{"key": "a", "path": "b"}]
    del memory["emptyDir"]
    memory["hostPath"] = {"path": "/dev/shm"}
    reader = {"name": "deployer-code", "mountPath": "/code"}
    pod["initContainers"] = [{"name": "reader", "volumeMounts": [reader]}]

    def find(name: str, **changes: Any) -> dict[str, Any]:
        *_, job = build_from(templates, replace_section("plain", **changes))
        volumes: list[dict[str, Any]] = job["spec"]["template"]["spec"]["volumes"]
        return next(one for one in volumes if one["name"] == name)

    assert find("deployer-code")["configMap"].keys() == {"name"}
    assert find("deployer-code", code="image") == code
    assert find("shared-memory", shared_memory="1Gi") == memory
