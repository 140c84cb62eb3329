"""Sections `kubernetes:` for every kind of volume, GPU and template, and their manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import yaml

from deployer.config.credentials import build_owner
from deployer.config.kubernetes import ClusterConfig
from deployer.executors.kubernetes.manifests.build import build_manifests
from deployer.executors.kubernetes.manifests.overlay import Manifest
from deployer.executors.kubernetes.manifests.templates import Templates, load_templates
from deployer.executors.plan import build_plan
from tests.golden_files import FOLDER
from tests.sections import parse_cluster

OWNER = build_owner("me")
AVOIDED = ("node-7", "node-9")
SWEEP_PATH = "team/digits/ab12cd34"
TEMPLATES = FOLDER / "templates"

PROFILES: Mapping[str, str] = {
    "plain": "image: trainer:1",
    "image_code": "{image: trainer:1, code: image, working_dir: /srv/project, python: python3.12}",
    "identity": "{image: trainer:1, identity_audience: https://api.wandb.ai, service_account: me}",
    "no_gpu": "{image: trainer:1, gpu: 0, cpu: 250m, memory: 512Mi, shared_memory: 128Mi}",
    "requests": """
image: trainer:1
install_wandb: true
cpu: {request: 2, limit: 4}
memory: {request: 1Gi, limit: 4Gi}
""",
    "gpus": """
image: trainer:1
gpu: {count: 4, product: NVIDIA-H100-80GB-HBM3}
node_selector: {pool: gpu}
tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
""",
    "mig_slice": """
image: trainer:1
gpu: {resource: nvidia.com/mig-1g.5gb, product: A100-SXM4-40GB, product_label: example.com/gpu}
""",
    "volumes": """
image: trainer:1
namespace: sweeps
volumes:
  - {name: checkpoints, pvc: checkpoints}
  - {name: datasets, mount_path: /data, read_only: true, nfs: {server: nas.example, path: /export}}
  - {name: scratch, mount_path: /scratch, empty_dir: {size: 10Gi}}
  - {name: fast, mount_path: /fast, empty_dir: {memory: true}}
  - {name: settings, mount_path: /settings, sub_path: one, config_map: settings}
  - {name: certificates, mount_path: /certificates, secret: certificates}
""",
    "own_checkpoints": """
image: trainer:1
volumes:
  - {name: checkpoints, mount_path: /mnt/checkpoints, sub_path: me, pvc: team}
  - {name: memory, mount_path: /dev/shm, empty_dir: {memory: true, size: 2Gi}}
""",
    "everything_else": """
image: registry.example/trainer:1
image_pull_policy: Always
image_pull_secrets: [registry]
service_account: trainer
run_as_user: 2000
priority_class: low
queue: sweeps-user-queue
queue_priority: urgent
env: {OMP_NUM_THREADS: 4, WANDB_BASE_URL: not-this-one}
secrets: {HF_TOKEN: {name: hugging-face, key: token}}
labels: {team: vision}
annotations: {note: hello}
generate_name: true
grace_period: 15s
max_time: 90m
ttl: 10m
""",
    "shared_cluster": "template: shared_cluster.yaml",
    "shared_cluster_changed": """
template: shared_cluster.yaml
image: trainer:1
gpu: 0
memory: 2Gi
shared_memory: 1Gi
volumes: [{name: volume, mount_path: /data, pvc: other}]
""",
    "list_with_sidecar": "{template: list_with_sidecar.yaml, code: image}",
    "own_volumes": """
template: own_volumes.yaml
env: {TOKEN: plain, WANDB_BASE_URL: not-this-one}
secrets: {MODE: {name: team, key: mode}}
volumes:
  - {name: checkpoints, pvc: checkpoints}
  - {name: scratch, mount_path: /scratch, empty_dir: {}}
  - {name: fast, mount_path: /cache, empty_dir: {memory: true}}
""",
    "own_pod": """
template: own_pod.yaml
image: trainer:2
run_as_user: 2000
image_pull_secrets: [shared, registry]
node_selector: {pool: gpu}
tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
labels: {team: audio}
volumes: [{name: checkpoints, mount_path: /checkpoints, sub_path: me, pvc: team}]
""",
}


def build_profile(name: str, namespace: str | None = None) -> tuple[Manifest, ...]:
    """Return the manifests of two agents; the packed files are a few bytes instead."""
    cluster = parse_cluster(yaml.safe_load(PROFILES[name]))
    return build(cluster, namespace)


def build(cluster: ClusterConfig, namespace: str | None = None) -> tuple[Manifest, ...]:
    """Return what two agents mean in a cluster."""
    cluster = replace(cluster, namespace=namespace or cluster.namespace)
    plan = build_plan(
        SWEEP_PATH, "https://wandb.example", "/home/me/project", 2, environment=(("SEED", "1"),)
    )
    templates = load_templates(TEMPLATES / cluster.template if cluster.template else None)
    return build_manifests(
        plan,
        cluster,
        templates,
        owner=OWNER,
        secret_name="" if cluster.identity_audience else "wandb-secret",
        secret_keys={agent.name: "secret" for agent in plan.agents},
        supervisor=b"supervisor",
        code=b"code" if cluster.code == "archive" else None,
    )


def replace_section(name: str, **changes: Any) -> ClusterConfig:
    """Return a profile's section with other values."""
    return parse_cluster({**yaml.safe_load(PROFILES[name]), **changes})


def build_from(templates: Templates, cluster: ClusterConfig) -> tuple[Manifest, ...]:
    """Build an agent from these templates, off the nodes of `AVOIDED`."""
    plan = build_plan("me/proj/ab12", "http://other.example", "/", 1, avoided_nodes=AVOIDED)
    return build_manifests(
        plan,
        cluster,
        templates,
        owner=OWNER,
        secret_name="ab12-keys",
        secret_keys={"ab12-a1": "ab12-a1"},
        supervisor=b"supervisor",
        code=b"code" if cluster.code == "archive" else None,
    )
