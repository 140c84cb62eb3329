"""A pod as a container of this machine: its command line, and what it lacks."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from deployer.config.sections.kubernetes import parse_cluster
from deployer.executors.kubernetes.manifests.container import ALWAYS, build_container
from deployer.executors.kubernetes.manifests.fields import Manifest
from deployer.images.containers import ContainerPlan, Machine, build_commands
from tests.executors.profiles import PROFILES, build, build_profile

KEYS = {"wandb-secret": {"secret": "the-key"}}
MACHINE = Machine(Path("/scratch"), "laptop", 8, 32 << 30, 0, {})
# Seed 004: `docker run -it --gpus all --env-file env.list image-classification-single python3 …`
ARTICLE = """
image: image-classification-single
gpu: 1
code: image
working_dir: /
env: {endpoint_url: "http://minio:9000", trainingbucket: training, region_name: us-east-1}
secrets: {aws_secret_access_key: {name: s3, key: secret}}
"""


def plan(section: str, machine: Machine = MACHINE) -> ContainerPlan:
    return build_container(build(parse_cluster(yaml.safe_load(section))), machine, KEYS, {})


def list_options(line: list[str], flag: str) -> list[str]:
    return [line[at + 1] for at, word in enumerate(line) if word == flag]


def find_pod(manifests: tuple[Manifest, ...]) -> Manifest:
    job = next(one for one in manifests if one["kind"] == "Job")
    pod: Manifest = job["spec"]["template"]["spec"]
    return pod


def test_articles_command_line() -> None:
    article = shlex.split(
        "docker run -it --gpus all --env-file env.list image-classification-single python3"
    )
    here = replace(MACHINE, gpus=1, environment={"aws_secret_access_key": "hidden"})
    [ours] = build_commands("docker", "it", plan(ARTICLE, here).container)
    assert ours[:2] == article[:2]
    assert list_options(ours, "--gpus") == list_options(article, "--gpus") == ["all"]
    image = ours.index(article[-2])
    assert list_options(ours, "--entrypoint") == article[-1:]
    assert ours[image + 1].endswith(".zip"), "the supervisor, which starts the sweep's command"
    told = list_options(ours, "--env")
    assert "trainingbucket=training" in told
    assert {"aws_secret_access_key", "WANDB_API_KEY"} <= {*told}
    assert "hidden" not in shlex.join(ours)
    assert "the-key" not in shlex.join(ours)


@pytest.mark.parametrize("name", PROFILES)
def test_like_the_pod(name: str) -> None:
    """Whatever is in a manifest is on the command line, or in a line of what is left out."""
    manifests = build_profile(name)
    pod = find_pod(manifests)
    [agent] = [one for one in pod["containers"] if "agent.zip" in str(one.get("command"))]
    planned = build_container(manifests, MACHINE, KEYS, {})
    [line] = build_commands("podman", "it", planned.container)
    said = "\n".join(planned.left_out)
    mounted = [word.split(":")[1] for word in list_options(line, "--volume")]
    in_memory = [word.split(":")[0] for word in list_options(line, "--tmpfs")]
    shared = ["/dev/shm"] if "--shm-size" in line else []
    paths = [one["mountPath"].rstrip("/") for one in agent["volumeMounts"]]
    assert sorted([*mounted, *in_memory, *shared]) == sorted(paths)
    identity = pod.get("securityContext") or {}
    for field, flag in (("runAsUser", "--user"), ("fsGroup", "--group-add")):
        assert list_options(line, flag) == [str(v) for name, v in identity.items() if name == field]
    capabilities = (agent.get("securityContext") or {}).get("capabilities") or {}
    assert list_options(line, "--cap-drop") == capabilities.get("drop", [])
    told = {word.partition("=")[0] for word in list_options(line, "--env")}
    for variable in agent["env"]:
        assert variable["name"] in told or f"{variable['name']} comes from" in said
    assert line[line.index(agent["image"]) + 1 :] == [*agent["command"][1:], *agent["args"]]
    for resource in (one for one in (agent.get("resources") or {}).get("limits", ()) if "/" in one):
        assert f"{resource}: " in said
    for other in (one for one in pod["containers"] if one is not agent):
        assert f"the container {other['name']} beside it is not run" in said


def test_what_is_left_out() -> None:
    section = yaml.safe_load(PROFILES["volumes"]) | yaml.safe_load(
        "{cpu: 64, gpu: 2, secrets: {HF_TOKEN: {name: hugging-face, key: token}}}"
    )
    manifests = build(parse_cluster(section))
    data = {"datasets": Path("/here/mnist")}
    planned = build_container(manifests, MACHINE, KEYS, data)
    assert planned.left_out == (
        "HF_TOKEN comes from Secret hugging-face, and is not set here: export HF_TOKEN=…",
        "/deployer/checkpoints is an empty folder: PersistentVolumeClaim checkpoints is the"
        " cluster's",
        "/settings is an empty folder: ConfigMap settings is the cluster's",
        "/certificates is an empty folder: Secret certificates is the cluster's",
        "cpu: 64 is more than this machine has, 8",
        "nvidia.com/gpu: 2 is the cluster's; here: no GPU",
        ALWAYS,
    )
    files = {str(path.relative_to("/scratch")): text for path, text in planned.files.items()}
    assert files["deployer-supervisor/agent.zip"] == b"supervisor"
    assert files["deployer-code/code.tar.gz"] == b"code"
    assert files["deployer-key/key"] == b"the-key"
    assert b'app.kubernetes.io/name="' not in files["deployer-pod/annotations"]
    assert b'="team/digits/ab12cd34"' in files["deployer-pod/annotations"]
    assert "the-key" not in repr(planned)


def test_tools_differ() -> None:
    volume = "{name: m, mount_path: /m, empty_dir: {memory: true}}"
    section = f"{{image: trainer:1, gpu: 0, volumes: [{volume}]}}"
    container = replace(plan(section).container, read_only=True, gpus=-1)
    [docker] = build_commands("docker", "it", container)
    [podman] = build_commands("podman", "it", container)
    made, buildah = build_commands("buildah", "it", container)
    only = [word for word in podman if word not in docker]
    flags = ["--http-proxy=false", "--read-only-tmpfs=false", "--device", "nvidia.com/gpu=all"]
    assert only == ["podman", *flags]
    assert [word for word in docker if word not in podman] == ["docker", "--gpus", "all"]
    assert made == ["buildah", "from", "--name", "it", "--pull=false", "trainer:1"]
    assert list_options(buildah, "--mount") == ["type=tmpfs,destination=/m"]
    assert "WANDB_API_KEY" not in list_options(buildah, "--env"), "it would be set to nothing"
    assert buildah[buildah.index("--") + 1 :][-len(container.command) :] == [*container.command]
