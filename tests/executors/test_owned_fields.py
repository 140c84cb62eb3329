"""Python changes exactly the fields of k8s/ that are marked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from deployer.config.kubernetes import ClusterConfig
from deployer.executors.kubernetes.manifests.overlay import Manifest
from deployer.executors.kubernetes.manifests.templates import find_folder, load_templates
from tests.executors.profiles import AVOIDED, PROFILES, build_from, replace_section

MARK = "# set by deployer"
# The templates by field of `Templates`: file, and which of its documents.
FILES = {
    "agent": ("agent.yaml", 0),
    "supervisor": ("supervisor.yaml", 0),
    "code": ("code.yaml", 0),
    "volume": ("nfs.yaml", 0),
    "claim": ("nfs.yaml", 1),
}


def find_marks(text: str) -> list[set[str]]:
    """Return the paths of the marked lines of each document."""
    lines = text.splitlines()
    return [
        {path for path, line in walk_nodes("", node) if MARK in lines[line]}
        for node in yaml.compose_all(text, Loader=yaml.SafeLoader)
    ]


def walk_nodes(path: str, node: yaml.Node) -> Iterator[tuple[str, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = f"{path}.{key.value}".lstrip(".")
            yield inner, key.start_mark.line
            yield from walk_nodes(inner, value)
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            fields = item.value if isinstance(item, yaml.MappingNode) else ()
            names = [v.value for k, v in fields if k.value == "name"]
            yield from walk_nodes(f"{path}[{names[0] if names else number}]", item)


def find_differences(path: str, old: Any, new: Any) -> Iterator[str]:
    """Yield the paths at which two values differ; items of lists go by their names."""
    if isinstance(old, list) and isinstance(new, list):
        old, new = (
            {f"[{x.get('name', i) if isinstance(x, dict) else i}]": x for i, x in enumerate(items)}
            for items in (old, new)
        )
    elif isinstance(old, dict) and isinstance(new, dict):
        old, new = ({f".{k}": v for k, v in values.items()} for values in (old, new))
    elif old != new:
        yield path
        return
    else:
        return
    for key in {**old, **new}:
        if key in old and key in new:
            yield from find_differences(f"{path}{key}".lstrip("."), old[key], new[key])
        else:
            yield f"{path}{key}".lstrip(".")


def find_owner(path: str, marks: set[str]) -> str:
    """Return the deepest marked path that a path is or lies below."""
    above = [one for one in marks if path == one or path.startswith((f"{one}.", f"{one}["))]
    return max(above, key=len, default=f"nobody owns {path}")


@pytest.mark.parametrize("name", FILES)
def test_python_changes_all_marked_fields_and_no_others(name: str) -> None:
    file, document = FILES[name]
    marks = find_marks((find_folder() / file).read_text())[document]
    templates = load_templates()
    templates.agent["spec"].update(completions=7, parallelism=7)
    changes = {"volumes": yaml.safe_load(PROFILES["volumes"])["volumes"], "namespace": "sweeps"}
    gpu = {"count": 2, "product": "A100"}
    full = replace_section(
        "everything_else", **changes, generate_name=False, gpu=gpu, cpu=8, memory="9Gi",
        shared_memory="3Gi", tolerations=[{"key": "gpu"}], python="python3.12",
        image_pull_policy=None,
    )  # fmt: skip
    moved = replace_section(
        "own_checkpoints", code="image", working_dir="/srv", gpu={"resource": "amd.com/gpu"}
    )
    changed = set()
    for cluster in (full, moved):
        built = pick(build_from(templates, cluster), name)
        for path in find_differences("", getattr(templates, name), built) if built else ():
            changed.add(find_owner(path, marks))
    assert changed == marks


def test_bad_nodes_are_refused_whatever_else_is_wanted() -> None:
    templates = load_templates()
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    zones = [[{"key": "zone", "operator": "In", "values": [zone]}] for zone in "ab"]
    wanted = {required: {"nodeSelectorTerms": [{"matchExpressions": one} for one in zones]}}
    templates.agent["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": wanted}
    job = pick(build_from(templates, ClusterConfig(image="x")), "agent")
    assert job is not None
    affinity = job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    refused = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in AVOIDED]
    assert affinity[required]["nodeSelectorTerms"] == [
        {"matchExpressions": one, "matchFields": refused} for one in zones
    ]


def pick(manifests: tuple[Manifest, ...], name: str) -> Manifest | None:
    component = "volume" if name in ("volume", "claim") else name
    kinds = {"volume": "PersistentVolume", "claim": "PersistentVolumeClaim", "agent": "Job"}
    label = "app.kubernetes.io/component"
    return next(
        (
            one
            for one in manifests
            if one["kind"] == kinds.get(name, "ConfigMap")
            and one["metadata"]["labels"][label] == component
        ),
        None,
    )
