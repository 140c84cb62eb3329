"""The section `kubernetes:` of deployer.yaml as one frozen `ClusterConfig`; pure.

What is left out here stays as the template says: k8s/agent.yaml, or the user's own manifest.
"""

import re
from collections.abc import Mapping
from math import ceil
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic.dataclasses import dataclass

from deployer.config.field_types import (
    STRICT,
    Duration,
    Text,
    Value,
    at_least,
    refuse,
    refuse_twice,
)
from deployer.config.sections.kubernetes_parts import (
    AbsolutePath,
    Gpu,
    Image,
    LabelKey,
    LabelValue,
    LongName,
    ObjectName,
    PlainOrAmount,
    Quantity,
    SecretKey,
    Toleration,
    Volume,
    count_to_gpu,
)

MOST_PER_POD = 16


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ClusterConfig:
    """Where agents run in a cluster and what each of them gets."""

    image: Image | None = None
    """Any image with Python and wandb."""

    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When a node pulls the image."""

    image_pull_secrets: tuple[LongName, ...] = ()
    """Secrets that nodes use to pull the image."""

    python: Text = "python3"
    """The Python interpreter in the image."""

    install_wandb: bool = False
    """Install wandb from a package index in each pod if the image's Python lacks it; needs
    Python 3.10 or newer.
    """

    code: Literal["image", "archive"] = "archive"
    """Run the image's code, or a frozen archive of this folder."""

    working_dir: AbsolutePath | None = None
    """The folder of the image's code."""

    context: Text | None = None
    """The context in kubeconfig."""

    namespace: ObjectName | None = None
    """The namespace of agents; default: the context's."""

    identity_audience: Annotated[str, Field(min_length=1)] | None = None
    """Pods log in to W&B's servers without a key: with a token of their service account for this
    audience. The server must trust it. The embedded backend needs none.
    """

    service_account: LongName | None = None
    """The ServiceAccount of the pods."""

    run_as_user: Annotated[int, Field(ge=1)] | None = None
    """The user id of the containers, and the group id of their volumes."""

    gpu: Annotated[Gpu | None, BeforeValidator(count_to_gpu, json_schema_input_type=int | Gpu)] = (
        None
    )
    """The number or kind of GPUs of each pod; default: one."""

    agents_per_pod: Annotated[int, Field(ge=1, le=MOST_PER_POD)] = 1
    """How many agents share a pod, its GPU, cores and memory."""

    cpu: PlainOrAmount | None = None
    """CPU cores: both the request and the limit, or `{request: 2, limit: 4}`."""

    memory: PlainOrAmount | None = None
    """Memory: both the request and the limit, or `{request: 1Gi, limit: 4Gi}`."""

    shared_memory: Quantity | None = None
    """Size of /dev/shm."""

    volumes: tuple[Volume, ...] = ()
    """Volumes of each agent."""

    env: Mapping[str, Value] = Field(default_factory=dict)
    """Environment variables of agents, except secrets."""

    secrets: Mapping[str, SecretKey] = Field(default_factory=dict)
    """Environment variables from existing Secrets."""

    node_selector: Mapping[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels that a node must have."""

    tolerations: tuple[Toleration, ...] = ()
    """Taints of nodes that agents tolerate."""

    priority_class: LongName | None = None
    """The PriorityClass of the pods."""

    runtime_class: LongName | None = None
    """The RuntimeClass of the pods, such as `nvidia` on k3s."""

    host_ipc: bool = False
    """Pods share their node's IPC, which NVIDIA's MPS needs. Pod Security allows it only at the
    level `privileged`.
    """

    queue: ObjectName | None = None
    """Kueue's LocalQueue for the Jobs."""

    queue_priority: LongName | None = None
    """Kueue's WorkloadPriorityClass, which orders Jobs in the queue and decides preemption.
    Default: the pods' PriorityClass.
    """

    labels: Mapping[LabelKey, LabelValue] = Field(default_factory=dict)
    """More labels on Jobs and pods."""

    annotations: Mapping[LabelKey, Value] = Field(default_factory=dict)
    """More annotations on Jobs and pods."""

    generate_name: bool = False
    """Let the server generate the Jobs' names (generateName)."""

    grace_period: Annotated[Duration, at_least(5)] | None = None
    """How long a pod may take to stop, such as 60s."""

    max_time: Annotated[Duration, at_least(1)] | None = None
    """The time limit of an agent, such as 12h."""

    ttl: Duration | None = None
    """How long to keep an ended Job and its log, such as 2h."""

    template: Text | None = None
    """A file with your own manifest of one Job, relative to deployer.yaml."""

    def count_pods(self, agents: int) -> int:
        """Return how many pods so many agents are."""
        return ceil(agents / self.agents_per_pod)

    @field_validator("env", "secrets")
    @classmethod
    def _check_variables(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        wrong = [name for name in value if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]
        if wrong:
            said = f"'{wrong[0]}' is not the name of an environment variable"
            refuse(said)
        if "WANDB_API_KEY" in value:
            hint = "deployer secret set"
            refuse("the key cannot be set in a file", hint)
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse_twice(self.volumes, "volumes: ")
        if self.queue_priority and not self.queue and not self.template:
            said = "queue_priority: needs a queue"
            refuse(said, "queue: NAME")
        if self.working_dir and self.code == "archive":
            said = "working_dir: with an archive, agents work in the archive's folder"
            hint = "remove it, or write `code: image`"
            refuse(said, hint)
        return self
