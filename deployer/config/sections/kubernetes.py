"""The section `kubernetes:` of deployer.yaml as one frozen `ClusterConfig`; pure.

What is left out here stays as the template says: k8s/agent.yaml, or the user's own manifest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

from deployer.config.durations import Duration, at_least
from deployer.config.sections.kubernetes_parts import (
    PATTERN_HINTS,
    AbsolutePath,
    Amount,
    EmptyDir,
    Gpu,
    Image,
    LabelKey,
    LabelValue,
    LongName,
    NfsFolder,
    ObjectName,
    PlainOrAmount,
    Quantity,
    SecretKey,
    Toleration,
    Volume,
    count_to_gpu,
)
from deployer.config.sections.section import STRICT, Section, Text, Value


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ClusterConfig:
    """Where agents run in a cluster and what each of them gets."""

    image: Annotated[Image | None, Field(description="Any image with Python and wandb.")] = None
    image_pull_policy: Annotated[
        Literal["Always", "IfNotPresent", "Never"] | None,
        Field(description="When a node pulls the image."),
    ] = None
    image_pull_secrets: Annotated[
        tuple[LongName, ...], Field(description="Secrets with which nodes pull the image.")
    ] = ()
    python: Annotated[Text, Field(description="The Python interpreter in the image.")] = "python3"
    install_wandb: Annotated[
        bool,
        Field(
            description="Pods install wandb, from a package index, into a folder that ends with "
            "them, where the image's Python (3.10 or newer) has none."
        ),
    ] = False
    code: Annotated[
        Literal["image", "archive"],
        Field(description="Run the image's code, or a frozen archive of this folder."),
    ] = "archive"
    working_dir: Annotated[
        AbsolutePath | None, Field(description="The folder of the image's code.")
    ] = None
    context: Annotated[Text | None, Field(description="The context in kubeconfig.")] = None
    namespace: Annotated[
        ObjectName | None, Field(description="The namespace of agents; left out: the context's.")
    ] = None
    service_account: Annotated[
        LongName | None, Field(description="The ServiceAccount of the pods.")
    ] = None
    run_as_user: Annotated[
        Annotated[int, Field(ge=1)] | None,
        Field(description="The user id of the containers, and the group of their volumes."),
    ] = None
    gpu: Annotated[
        Gpu | None,
        BeforeValidator(count_to_gpu, json_schema_input_type=int | Gpu),
        Field(description="How many GPUs each pod gets, or which; left out: one."),
    ] = None
    agents_per_pod: Annotated[
        int,
        Field(ge=1, le=16, description="How many agents share a pod, its GPU, cores and memory."),
    ] = 1
    cpu: Annotated[
        PlainOrAmount | None,
        Field(description="CPU cores, request and limit, or `{request: 2, limit: 4}`."),
    ] = None
    memory: Annotated[
        PlainOrAmount | None,
        Field(description="Request and limit, or `{request: 1Gi, limit: 4Gi}`."),
    ] = None
    shared_memory: Annotated[Quantity | None, Field(description="Size of /dev/shm.")] = None
    volumes: Annotated[tuple[Volume, ...], Field(description="Volumes of each agent.")] = ()
    env: Annotated[
        Mapping[str, Value], Field(description="Environment variables of agents; no secrets.")
    ] = Field(default_factory=dict)
    secrets: Annotated[
        Mapping[str, SecretKey],
        Field(description="Environment variables from existing Secrets."),
    ] = Field(default_factory=dict)
    node_selector: Annotated[
        Mapping[LabelKey, LabelValue], Field(description="Labels that a node must have.")
    ] = Field(default_factory=dict)
    tolerations: Annotated[
        tuple[Toleration, ...], Field(description="Taints of nodes that agents tolerate.")
    ] = ()
    priority_class: Annotated[
        LongName | None, Field(description="The PriorityClass of the pods.")
    ] = None
    runtime_class: Annotated[
        LongName | None,
        Field(description="The RuntimeClass of the pods, such as `nvidia` on k3s."),
    ] = None
    host_ipc: Annotated[
        bool,
        Field(
            description="Pods share their node's IPC, which GPUs shared by NVIDIA's MPS need. "
            "Pod Security forbids it but at the level `privileged`."
        ),
    ] = False
    queue: Annotated[ObjectName | None, Field(description="The LocalQueue of Kueue.")] = None
    queue_priority: Annotated[
        LongName | None,
        Field(
            description="The WorkloadPriorityClass of Kueue: whose Jobs come first in the queue "
            "and push out others; left out, the PriorityClass of the pods counts."
        ),
    ] = None
    labels: Annotated[
        Mapping[LabelKey, LabelValue], Field(description="More labels on Jobs and pods.")
    ] = Field(default_factory=dict)
    annotations: Annotated[
        Mapping[LabelKey, Value], Field(description="More annotations on Jobs and pods.")
    ] = Field(default_factory=dict)
    generate_name: Annotated[
        bool, Field(description="Let the server complete the Jobs' names (generateName).")
    ] = False
    grace_period: Annotated[
        Annotated[Duration, at_least(5)] | None,
        Field(description="How long a pod that is told to stop may take, such as 60s."),
    ] = None
    max_time: Annotated[
        Annotated[Duration, at_least(1)] | None,
        Field(description="An agent is ended after this time in any case, such as 12h."),
    ] = None
    ttl: Annotated[
        Duration | None,
        Field(description="How long an ended Job and its log stay, such as 2h."),
    ] = None
    template: Annotated[
        Text | None,
        Field(description="Your own manifest with one Job, relative to deployer.yaml."),
    ] = None

    def count_pods(self, agents: int) -> int:
        """Return how many pods so many agents are."""
        return ceil(agents / self.agents_per_pod)

    @field_validator("env", "secrets")
    @classmethod
    def _check_variables(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        wrong = [name for name in value if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]
        if wrong:
            said = f"'{wrong[0]}' is not the name of an environment variable"
            raise PydanticCustomError("variable", "{said}", {"said": said})
        if "WANDB_API_KEY" in value:
            hint = "deployer secret create"
            raise PydanticCustomError("key", "the key is no setting of a file", {"hint": hint})
        return value

    @model_validator(mode="after")
    def _check(self) -> ClusterConfig:
        for what in ("name", "path"):
            seen = [getattr(volume, what) for volume in self.volumes]
            twice = next((one for one in seen if seen.count(one) > 1), None)
            if twice is not None:
                said = f"volumes: two have the {what} '{twice}'"
                raise PydanticCustomError("volumes", "{said}", {"said": said})
        if self.queue_priority and not self.queue and not self.template:
            said = "queue_priority: counts in a queue alone"
            raise PydanticCustomError("queue", "{said}", {"said": said, "hint": "queue: NAME"})
        if self.working_dir and self.code == "archive":
            said = "working_dir: with an archive, agents work in the archive's folder"
            hint = "remove it, or write `code: image`"
            raise PydanticCustomError("working_dir", "{said}", {"said": said, "hint": hint})
        return self


PARTS: Mapping[str, type] = {
    "gpu": Gpu,
    "cpu": Amount,
    "memory": Amount,
    "volumes": Volume,
    "nfs": NfsFolder,
    "empty_dir": EmptyDir,
    "secrets": SecretKey,
    "tolerations": Toleration,
}
SECTION = Section("kubernetes", ClusterConfig, PARTS, PATTERN_HINTS)


def parse_cluster(section: object) -> ClusterConfig:
    """Read the section `kubernetes:`; raises ConfigError with every complaint."""
    return SECTION.parse(section)
