"""Manifests: goldens of every profile, code archives, keys, templates of one's own."""

from __future__ import annotations

import base64
import copy
import io
import json
import random
import re
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from deployer.__main__ import run
from deployer.config.kubernetes import ClusterConfig
from deployer.errors import ConfigError
from deployer.executors.kubernetes.manifests.build import (
    build_manifests,
    build_secret,
    read_code_maps,
)
from deployer.executors.kubernetes.manifests.overlay import Manifest
from deployer.executors.kubernetes.manifests.templates import load_templates
from deployer.executors.plan import build_plan
from deployer.images.code_archive import PART_BYTES
from deployer.kube.objects import build_hash
from tests.executors.profiles import (
    OWNER,
    PROFILES,
    build,
    build_from,
    build_profile,
    replace_section,
)
from tests.git import commit_all
from tests.golden_files import check_golden
from tests.project_files import list_sweeps

SWEEPS = list_sweeps()


@pytest.mark.parametrize("name", PROFILES)
def test_goldens(name: str) -> None:
    text = yaml.safe_dump_all(build_profile(name), sort_keys=False)
    check_golden(f"{name}.yaml", text)


def test_a_request_above_its_limit_is_refused_as_the_api_server_does() -> None:
    with pytest.raises(ConfigError) as refused:
        build(replace_section("plain", memory={"request": "2Gi", "limit": "1024Mi"}))
    assert str(refused.value).startswith("deployer.yaml: kubernetes.memory: the request 2Gi is")


# All have the one golden.
@pytest.mark.parametrize(
    "sweep",
    [SWEEPS[0], *(pytest.param(sweep, marks=pytest.mark.full) for sweep in SWEEPS[1:])],
    ids=lambda path: path.stem,
)
def test_plan_of_every_sweep(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deployer.yaml").write_text("kubernetes: {image: trainer:1, namespace: sweeps}\n")
    (tmp_path / "train.py").write_text("print('trained')\n")
    monkeypatch.chdir(tmp_path)
    assert run(["plan", str(sweep), "--on", "kubernetes", "--replicas", "2"]) == 0
    shown = capsys.readouterr().out
    stable = re.sub(r"(agent.zip|code.tar.gz|program.tar.gz.\d+): \S+", r"\1: PACKED", shown)
    stable = re.sub(r"(supervisor|code)-owner-[0-9a-f]{8}-[0-9a-f]{8}", r"\1-owner-HASH", stable)
    stable = re.sub(r"sweep-backend-[0-9a-f]{8}", "sweep-backend-HASH", stable)
    check_golden("plan.yaml", stable)


def test_code_from_git_is_packed_on_the_client_and_its_commit_is_in_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("print('committed')\n")
    commit = commit_all(tmp_path)
    (tmp_path / "train.py").write_text("print('edited')\n")
    (tmp_path / "deployer.yaml").write_text("code: git\nkubernetes: {image: trainer:1}\n")
    sweep = "program: train.py\nmethod: grid\nparameters: {lr: {values: [1]}}\n"
    (tmp_path / "sweep.yaml").write_text(sweep)
    monkeypatch.chdir(tmp_path)
    assert run(["plan", "sweep.yaml", "--on", "kubernetes", "-o", "json"]) == 0
    shown = capsys.readouterr()
    documents = json.loads(shown.out)
    [code] = [one for one in documents if "code.tar.gz" in one.get("binaryData", {})]
    packed = base64.b64decode(code["binaryData"]["code.tar.gz"])
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == ["train.py"]
        member = archive.extractfile("train.py")
        assert member is not None
        assert member.read() == b"print('committed')\n"
    environment = documents[-1]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "WANDB_GIT_COMMIT", "value": commit} in environment
    assert f"at {commit}" in shown.err
    assert "agents get the commit, without changes in train.py, deployer.yaml" in shown.err
    assert run(["plan", "sweep.yaml", "--on", "local", "-o", "json"]) == 0
    [plan] = json.loads(capsys.readouterr().out)
    assert ["WANDB_GIT_COMMIT", commit] in plan["agents"][0]["environment"]
    (tmp_path / "deployer.yaml").write_text("code: git\nkubernetes: {image: a, code: image}\n")
    assert run(["plan", "sweep.yaml", "--on", "kubernetes"]) == 2
    assert "`kubernetes.code: image` runs the code in the image" in capsys.readouterr().err


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


def test_other_content_makes_another_config_map() -> None:
    plan = build_plan("me/proj/ab12", "http://x", "/", 1)
    names = {
        build_manifests(
            plan, ClusterConfig(image="x"), load_templates(), owner=OWNER, secret_name="s",
            secret_keys={"ab12-a1": "k"}, supervisor=b"s", code=code,
        )[1]["metadata"]["name"]
        for code in (b"one", b"two", b"one")
    }  # fmt: skip
    assert len(names) == 2


def build_with_code(code: bytes) -> tuple[list[Manifest], Manifest]:
    """Return the ConfigMaps of some code, and the volume that an agent mounts."""
    plan = build_plan("me/proj/ab12", "http://x", "/", 1)
    _, *maps, job = build_manifests(
        plan, ClusterConfig(image="x"), load_templates(), owner=OWNER, secret_name="s",
        secret_keys={"ab12-a1": "k"}, supervisor=b"s", code=code,
    )  # fmt: skip
    volumes = job["spec"]["template"]["spec"]["volumes"]
    return maps, next(one for one in volumes if one["name"] == "deployer-code")


def test_a_large_archive_lies_in_several_config_maps() -> None:
    code = random.Random(1).randbytes(2 * PART_BYTES + 7)
    maps, volume = build_with_code(code)
    names = [one["metadata"]["name"] for one in maps]
    assert names == [f"ab12-code-{OWNER.id[:8]}-{build_hash(code)}-{n}" for n in range(3)]
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
