"""The section `kubernetes:`: what is taken, every complaint with its place, the editors' schema."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from deployer.config.check import PATTERN_HINTS
from deployer.config.image_reference import IMAGE_HINT
from deployer.config.kubernetes import (
    LABEL_KEY,
    LABEL_LETTERS,
    Amount,
    ClusterConfig,
    EmptyDir,
    Gpu,
    NfsFolder,
    SecretKey,
    Toleration,
    Volume,
)
from deployer.config.settings import PATH, build_schema, format_schema
from deployer.errors import ConfigError
from deployer.executors.registry import list_names
from deployer.text import DURATION_HINT
from tests.golden_files import UPDATE
from tests.project_files import read_project
from tests.sections import parse_cluster

EVERYTHING = """
image: registry.example/team/trainer:1
image_pull_policy: Always
image_pull_secrets: [registry]
python: /opt/conda/bin/python
install_wandb: true
code: image
working_dir: /srv/project
context: lab
namespace: sweeps
service_account: trainer
run_as_user: 2000
gpu: {count: 2, resource: nvidia.com/mig-1g.5gb, product: A100, product_label: gpu/product}
cpu: 4
memory: {request: 8Gi, limit: 16Gi}
shared_memory: 8Gi
volumes:
  - {name: checkpoints, pvc: checkpoints}
  - {name: data, mount_path: /data, read_only: true, nfs: {server: nas.example, path: /export}}
  - {name: scratch, mount_path: /scratch, empty_dir: {size: 10Gi, memory: true}}
  - {name: plain, mount_path: /plain, empty_dir:}
  - {name: settings, mount_path: /settings, sub_path: one, config_map: settings}
  - {name: certificates, mount_path: /certificates, secret: certificates}
env: {OMP_NUM_THREADS: 4, RATE: 0.5, WORD: text}
secrets: {HF_TOKEN: {name: hugging-face, key: token}}
node_selector: {pool: gpu}
tolerations: [{key: gpu, operator: Equal, value: 1, effect: NoSchedule}]
priority_class: low
queue: sweeps-user-queue
labels: {team: vision}
annotations: {note: hello}
generate_name: true
grace_period: 60s
max_time: 90m
ttl: 10m
template: job.yaml
"""


def complain(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        parse_cluster(yaml.safe_load(text))
    return [(error.text, error.fix) for error in caught.value.findings]


def test_nothing_is_a_config_too() -> None:
    assert parse_cluster(None) == parse_cluster({}) == ClusterConfig()
    assert ClusterConfig().code == "archive"


def test_everything_that_can_be_said() -> None:
    config = parse_cluster(yaml.safe_load(EVERYTHING))
    assert config.gpu == Gpu(
        count=2, resource="nvidia.com/mig-1g.5gb", product="A100", product_label="gpu/product"
    )
    assert config.cpu == Amount(request="4", limit="4")
    assert config.memory == Amount(request="8Gi", limit="16Gi")
    assert config.max_time == timedelta(hours=1.5)
    assert config.env == {"OMP_NUM_THREADS": "4", "RATE": "0.5", "WORD": "text"}
    assert config.secrets == {"HF_TOKEN": SecretKey(name="hugging-face", key="token")}
    assert config.tolerations == (
        Toleration(key="gpu", operator="Equal", value="1", effect="NoSchedule"),
    )
    assert config.volumes[:4] == (
        Volume(name="checkpoints", pvc="checkpoints"),
        Volume(
            name="data",
            mount_path="/data",
            read_only=True,
            nfs=NfsFolder(server="nas.example", path="/export"),
        ),
        Volume(name="scratch", mount_path="/scratch", empty_dir=EmptyDir(size="10Gi", memory=True)),
        Volume(name="plain", mount_path="/plain", empty_dir=EmptyDir()),
    )
    assert [volume.path for volume in config.volumes[:2]] == ["/deployer/checkpoints", "/data"]


def test_a_number_of_gpus_is_enough() -> None:
    assert parse_cluster({"gpu": 3}).gpu == Gpu(count=3)
    assert parse_cluster({"gpu": 0}).gpu == Gpu(count=0)


PLACE = "deployer.yaml: kubernetes"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("imag: x", "imag: unknown key", "did you mean `image`?"),
        ("{cpu: {request: 1}}", "cpu.limit: is missing", "add `limit:`"),
        (
            "{cpu: {request: 1, limit: 1, reqest: 1}}",
            "cpu.reqest: unknown key",
            "did you mean `request`?",
        ),
        ("{gpu: {kount: 1}}", "gpu.kount: unknown key", "did you mean `count`?"),
        ("{gpu: many}", "gpu: 'many' is not a mapping", "write `name: value` pairs below it"),
        ("{gpu: true}", "gpu: True is not a mapping", "write `name: value` pairs below it"),
        (
            "{gpu: 0.5}",
            "gpu: a pod cannot request a fraction of a GPU",
            "to share one: agents_per_pod: 2; for a slice: resource: nvidia.com/mig-1g.5gb",
        ),
        ("{gpu: {product: [A100, H100]}}", "gpu: is a list, but all agents get one product", None),
        ("{gpu: -1}", "gpu: -1 is below 0", "write 0 or more"),
        ("{image: 3}", "image: 3 is not text", "put it in quotes"),
        ("{image: Team/Trainer:1}", "image: 'Team/Trainer:1' is not valid", IMAGE_HINT),
        ("{image: 'a:b:c'}", "image: 'a:b:c' is not valid", IMAGE_HINT),
        ("{image: 'a b'}", "image: 'a b' is not valid", IMAGE_HINT),
        ("{image: a@sha256:12}", "image: 'a@sha256:12' is not valid", IMAGE_HINT),
        ("{labels: {team: a b}}", "labels.team: 'a b' is not valid", LABEL_LETTERS),
        ("{labels: {team: -a}}", "labels.team: '-a' is not valid", LABEL_LETTERS),
        (f"{{labels: {{t: {'a' * 64}}}}}", f"labels.t: '{'a' * 64}' is not valid", LABEL_LETTERS),
        ("{labels: {a b: c}}", "labels.a b: 'a b' is not valid", PATTERN_HINTS[LABEL_KEY]),
        ("{labels: {A/b: c}}", "labels.A/b: 'A/b' is not valid", PATTERN_HINTS[LABEL_KEY]),
        ("{node_selector: {pool: a/b}}", "node_selector.pool: 'a/b' is not valid", LABEL_LETTERS),
        ("{annotations: {a b: c}}", "annotations.a b: 'a b' is not valid", None),
        ("{gpu: {product: A 100}}", "gpu.product: 'A 100' is not valid", LABEL_LETTERS),
        ("{service_account: My_Account}", "service_account: 'My_Account' is not valid", None),
        ("{secrets: {A: {name: a_b, key: k}}}", "secrets.A.name: 'a_b' is not valid", None),
        ("{cpu: two}", "cpu: 'two' is not valid", "write it as Kubernetes does: 500m, 2, 4Gi"),
        (
            "{memory: 4 GB}",
            "memory: '4 GB' is not valid",
            "write it as Kubernetes does: 500m, 2, 4Gi",
        ),
        ("{env: {A: on}}", "env.A: True is not text", "put it in quotes"),
        ("{env: {A-B: x}}", "env: 'A-B' is not the name of an environment variable", ""),
        (
            "{env: {WANDB_API_KEY: x}}",
            "env: the key cannot be set in a file",
            "deployer secret set",
        ),
        ("{secrets: {A: {name: s}}}", "secrets.A.key: is missing", "add `key:`"),
        ("{volumes: {a: b}}", "volumes: {'a': 'b'} is not a list", None),
        ("{volumes: [{name: a, mount_path: /a}]}", "volumes[0]: has no source", None),
        (
            "{volumes: [{name: a, mount_path: /a, pvc: a, secret: b}]}",
            "volumes[0]: has pvc and secret",
            "give exactly one of pvc, nfs, empty_dir, config_map, secret",
        ),
        ("{volumes: [{name: a, pvc: a}]}", "volumes[0]: has no mount_path", "mount_path: /data"),
        ("{volumes: [{name: deployer-work, pvc: a}]}", None, "choose another"),
        ("{volumes: [{name: a, mount_path: /deployer/x, pvc: a}]}", None, "choose another"),
        (
            "{volumes: [{name: a, mount_path: data, pvc: a}]}",
            "volumes[0].mount_path: 'data' is not valid",
            "write an absolute path",
        ),
        ("{code: git}", "code: 'git' is not known", "one of: 'image' or 'archive'"),
        ("{working_dir: /x}", None, "remove it, or write `code: image`"),
        (
            "{max_time: long}",
            "max_time: 'long' is not a duration",
            "write a duration such as 30s, 90m or 2h",
        ),
        ("{max_time: 6}", "max_time: '6' is not a duration", DURATION_HINT),
        ("{grace_period: 4s}", "grace_period: is shorter than 5s", ""),
        ("{generate_name: 1}", "generate_name: 1 is not true or false", None),
        ("[a]", None, "write `name: value` pairs below it"),
    ],
)
def test_complaints(text: str, message: str | None, hint: str | None) -> None:
    (said,) = complain(text)
    assert said[0].startswith(PLACE)
    assert message is None or said[0] == f"{PLACE}.{message}"
    assert hint is None or said[1] == hint


@pytest.mark.parametrize(
    "image",
    [
        "trainer",
        "trainer:1",
        "team/trainer:v1.2_3-rc",
        "localhost:5000/a__b/c-d.e",
        f"europe-docker.pkg.dev/p/r/trainer:1@sha256:{'0af' * 21}b",
        "Registry.Example.ORG/trainer",
    ],
)
def test_images_as_nodes_read_them(image: str) -> None:
    assert parse_cluster({"image": image}).image == image


def test_labels_as_kubernetes_takes_them() -> None:
    labels = {"team": "", "example.org/a_b": "1.0-x", "n": 3, "long": "a" * 63}
    assert parse_cluster({"labels": labels}).labels == {**labels, "n": "3"}


def test_two_volumes_of_one_name_or_path() -> None:
    twice = "{name: a, mount_path: /a, pvc: a}"
    ((message, _),) = complain(f"volumes: [{twice}, {twice}]")
    assert message == f"{PLACE}: volumes: two entries have the name 'a'"
    ((message, _),) = complain(
        "volumes: [{name: a, mount_path: /a, pvc: a}, {name: b, mount_path: /a, pvc: b}]"
    )
    assert message == f"{PLACE}: volumes: two entries have the path '/a'"


def test_all_complaints_about_the_file_come_with_their_lines(tmp_path: Path) -> None:
    lines = ("replicas: two", "kubernetes:", "  image: 3", "  gpu:", "    count: x", "  que: a")
    (tmp_path / "deployer.yaml").write_text("\n".join(lines) + "\n")
    with pytest.raises(ConfigError) as caught:
        read_project(tmp_path)
    assert [error.text for error in caught.value.findings] == [
        "deployer.yaml:1: replicas: 'two' is not a whole number",
        "deployer.yaml:3: kubernetes.image: 3 is not text",
        "deployer.yaml:5: kubernetes.gpu.count: 'x' is not a whole number",
        "deployer.yaml:6: kubernetes.que: unknown key",
    ]


def test_a_folder_with_and_without_a_section(tmp_path: Path) -> None:
    assert read_project(tmp_path).kubernetes == ClusterConfig()
    (tmp_path / "deployer.yaml").write_text("replicas: 2\n")
    assert read_project(tmp_path).kubernetes == ClusterConfig()
    (tmp_path / "deployer.yaml").write_text("on: kubernetes\nkubernetes: {image: a}\n")
    assert read_project(tmp_path).kubernetes == ClusterConfig(image="a")
    assert read_project(tmp_path).on == "kubernetes"


def test_schema_for_editors_is_that_of_the_classes() -> None:
    if UPDATE:
        PATH.write_text(format_schema(list_names()))
    assert PATH.read_text() == format_schema(list_names())
    cluster = build_schema(list_names())["$defs"]["ClusterConfig"]
    assert set(cluster["properties"]) == set(ClusterConfig.__dataclass_fields__)
