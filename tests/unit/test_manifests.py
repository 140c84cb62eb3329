"""Manifests: goldens of every profile, and exactly the marked fields change."""

from __future__ import annotations

import base64
import copy
import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.__main__ import run
from deployer.archive import PART_BYTES
from deployer.cluster_config import ClusterConfig, parse_cluster
from deployer.errors import ConfigError
from deployer.manifests import (
    Manifest,
    Templates,
    build_manifests,
    build_secret,
    load_templates,
    owned_paths,
    read_code_maps,
)
from deployer.manifests.templates import find_folder
from deployer.names import build_hash
from deployer.plan import build_plan
from tests.unit.goldens import check_golden
from tests.unit.profiles import PROFILES, build, build_profile

MARK = "# set by deployer"
AVOIDED = ("node-7", "node-9")
SWEEPS = sorted((Path(__file__).parents[2] / "sweeps").glob("*.yaml"))
# The templates by field of `Templates`: file, and which of its documents.
FILES = {
    "agent": ("agent.yaml", 0),
    "supervisor": ("supervisor.yaml", 0),
    "code": ("code.yaml", 0),
    "volume": ("nfs.yaml", 0),
    "claim": ("nfs.yaml", 1),
}


@pytest.mark.parametrize("name", PROFILES)
def test_goldens(name: str) -> None:
    text = yaml.safe_dump_all(build_profile(name), sort_keys=False)
    check_golden(f"{name}.yaml", text)


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda path: path.stem)
def test_plan_of_every_sweep(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deployer.yaml").write_text("kubernetes: {image: trainer:1, namespace: sweeps}\n")
    (tmp_path / "train.py").write_text("print('trained')\n")
    monkeypatch.chdir(tmp_path)
    assert run(["plan", str(sweep), "--on", "kubernetes", "--replicas", "2"]) == 0
    shown = capsys.readouterr().out
    stable = re.sub(r"(agent.zip|code.tar.gz): \S+", r"\1: PACKED", shown)
    stable = re.sub(r"(supervisor|code)-[0-9a-f]{8}-[0-9a-f]{8}", r"\1-HASH", stable)
    check_golden("plan.yaml", stable)


def test_plan_for_a_server_with_one_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deployer.yaml").write_text("on: kubernetes\nkubernetes: {image: a, code: image}\n")
    monkeypatch.chdir(tmp_path)
    words = ["plan", str(SWEEPS[0]), "--wandb", "https://wandb.example", "-o", "json"]
    assert run(words) == 0
    *_, job = json.loads(capsys.readouterr().out)
    environment = job["spec"]["template"]["spec"]["containers"][0]["env"]
    assert environment[0] == {"name": "WANDB_BASE_URL", "value": "https://wandb.example"}
    assert environment[1]["valueFrom"]["secretKeyRef"] == {"name": "wandb-secret", "key": "secret"}


def test_plan_on_this_machine_is_its_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["plan", str(SWEEPS[0]), "--replicas", "2"]) == 0
    (planned,) = yaml.safe_load_all(capsys.readouterr().out)
    assert [agent["name"] for agent in planned["agents"]] == ["SWEEP_ID-a1", "SWEEP_ID-a2"]


def test_same_input_same_manifests_and_no_template_is_changed() -> None:
    templates = load_templates()
    before = copy.deepcopy(templates)
    everything = replace_section("everything_else")
    assert build(everything) == build(everything)
    build_from(templates, everything)
    assert templates == before


def replace_section(name: str, **changes: Any) -> ClusterConfig:
    return parse_cluster({**yaml.safe_load(PROFILES[name]), **changes})


def build_from(templates: Templates, cluster: ClusterConfig) -> tuple[Manifest, ...]:
    plan = build_plan("me/proj/ab12", "http://other.example", "/", 1, avoided_nodes=AVOIDED)
    return build_manifests(
        plan,
        cluster,
        templates,
        secret_name="ab12-keys",
        secret_keys={"ab12-a1": "ab12-a1"},
        supervisor=b"supervisor",
        code=b"code" if cluster.code == "archive" else None,
    )


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


def find_owner(path: str, owned: tuple[str, ...]) -> str:
    above = [one for one in owned if path == one or path.startswith((f"{one}.", f"{one}["))]
    return max(above, key=len, default=f"nobody owns {path}")


@pytest.mark.parametrize("name", FILES)
def test_marked_lines_are_the_owned_ones(name: str) -> None:
    file, document = FILES[name]
    marks = find_marks((find_folder() / file).read_text())[document]
    assert marks == set(owned_paths()[name])


@pytest.mark.parametrize("name", FILES)
def test_python_changes_all_owned_fields_and_no_others(name: str) -> None:
    templates = load_templates()
    templates.agent["spec"].update(completions=7, parallelism=7)
    changes = {"volumes": yaml.safe_load(PROFILES["volumes"])["volumes"], "namespace": "sweeps"}
    gpu = {"count": 2, "product": "A100"}
    full = replace_section(
        "everything_else", **changes, generate_name=False, gpu=gpu, cpu=8, memory="9Gi",
        shared_memory="3Gi", tolerations=[{"key": "gpu"}], python="python3.12",
    )  # fmt: skip
    moved = replace_section(
        "own_checkpoints", code="image", working_dir="/srv", gpu={"resource": "amd.com/gpu"}
    )
    changed = set()
    for cluster in (full, moved):
        built = pick(build_from(templates, cluster), name)
        for path in find_differences("", getattr(templates, name), built) if built else ():
            changed.add(find_owner(path, owned_paths()[name]))
    assert changed == set(owned_paths()[name])


def test_sick_nodes_are_refused_whatever_else_is_wanted() -> None:
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


def test_other_content_makes_another_config_map() -> None:
    plan = build_plan("me/proj/ab12", "http://x", "/", 1)
    names = {
        build_manifests(
            plan, ClusterConfig(image="x"), load_templates(), secret_name="s",
            secret_keys={"ab12-a1": "k"}, supervisor=b"s", code=code,
        )[1]["metadata"]["name"]
        for code in (b"one", b"two", b"one")
    }  # fmt: skip
    assert len(names) == 2


def build_with_code(code: bytes) -> tuple[list[Manifest], Manifest]:
    """Return the ConfigMaps of some code, and the volume that an agent mounts."""
    plan = build_plan("me/proj/ab12", "http://x", "/", 1)
    _, *maps, job = build_manifests(
        plan, ClusterConfig(image="x"), load_templates(), secret_name="s",
        secret_keys={"ab12-a1": "k"}, supervisor=b"s", code=code,
    )  # fmt: skip
    volumes = job["spec"]["template"]["spec"]["volumes"]
    return maps, next(one for one in volumes if one["name"] == "deployer-code")


def test_a_large_archive_lies_in_several_config_maps() -> None:
    code = random.Random(1).randbytes(2 * PART_BYTES + 7)
    maps, volume = build_with_code(code)
    names = [one["metadata"]["name"] for one in maps]
    assert names == [f"ab12-code-{build_hash(code)}-{n}" for n in range(3)]
    files = [file for one in maps for file in one["binaryData"]]
    assert files == [f"code.tar.gz.{n:02}" for n in range(3)]
    sources = [{"configMap": {"name": name}} for name in names]
    assert volume == {"name": "deployer-code", "projected": {"sources": sources}}


def test_archives_are_read_back_from_config_maps() -> None:
    small, large = b"first", random.Random(1).randbytes(2 * PART_BYTES + 7)
    maps, (other, *_) = build_with_code(large)[0], build_with_code(large[::-1])[0]
    assert read_code_maps(maps[::-1]) == large
    assert read_code_maps([other, *maps]) == large  # of the other archive two parts are missing
    for missing in maps:
        assert read_code_maps([one for one in maps if one is not missing]) is None
    assert read_code_maps([*build_with_code(small)[0], *maps]) == small
    assert read_code_maps([*maps, *build_with_code(small)[0]]) == large
    assert read_code_maps([]) is None


def test_a_key_is_in_the_secret_alone() -> None:
    secret = build_secret("wandb-secret", "sweeps", {"secret": "k" * 40}, "me/proj/ab12")
    assert base64.b64decode(secret["data"]["secret"]).decode() == "k" * 40
    assert secret["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "deployer"
    (job,) = (
        one
        for one in build_from(load_templates(), ClusterConfig(image="x"))
        if one["kind"] == "Job"
    )
    variables = {
        one["name"]: one for one in job["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    reference = {"secretKeyRef": {"name": "ab12-keys", "key": "ab12-a1"}}
    assert variables["WANDB_API_KEY"] == {"name": "WANDB_API_KEY", "valueFrom": reference}


def test_an_image_must_be_named_somewhere() -> None:
    with pytest.raises(ConfigError, match=r"deployer.yaml: kubernetes.image: is missing"):
        build(ClusterConfig())


JOB = "apiVersion: batch/v1\nkind: Job\n"
CONTAINERS = "spec: {template: {spec: {containers: [%s]}}}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: [", "cannot be read"),
        ("a: 1", "is not a Kubernetes manifest"),
        ("- 1", "is not a Kubernetes manifest"),
        ("kind: Pod", "has no Job"),
        (f"{JOB}---\n{JOB}", "has 2 Jobs"),
        (JOB, "the Job has no spec.template.spec.containers"),
        (JOB + CONTAINERS % "{name: a}, {name: b}", "which container runs the agent?"),
        (JOB + CONTAINERS % "", "which container runs the agent?"),
    ],
)
def test_templates_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_templates(file)
    assert caught.value.message.startswith(f"{file}: {message}")
    assert replace(load_templates()).template is None


def test_a_template_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_templates(tmp_path / "none.yaml")
