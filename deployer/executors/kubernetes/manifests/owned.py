"""The fields that Python sets, for each template; every other line of k8s/ is sent as it stands.

`# set by deployer` marks the same fields in k8s/*.yaml; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping

from deployer.executors.kubernetes.manifests.pod import POD, list_common_fields

_MAIN = f"{POD}.containers[agent]"
JOB = (
    "metadata.name",
    "metadata.namespace",
    "metadata.labels",
    "metadata.annotations",
    "spec.completions",
    "spec.parallelism",
    "spec.ttlSecondsAfterFinished",
    "spec.activeDeadlineSeconds",
    "spec.template.metadata.annotations",
    *list_common_fields("agent"),
    f"{POD}.terminationGracePeriodSeconds",
    f"{POD}.priorityClassName",
    f"{POD}.affinity",
    f"{_MAIN}.args",
    f"{_MAIN}.workingDir",
    f"{_MAIN}.env[WANDB_BASE_URL].value",
    f"{_MAIN}.env[WANDB_API_KEY].valueFrom.secretKeyRef.name",
    f"{_MAIN}.env[WANDB_API_KEY].valueFrom.secretKeyRef.key",
    f"{_MAIN}.env[DEPLOYER_CHECKPOINT_ROOT].value",
    f"{_MAIN}.env[DEPLOYER_OUTPUT_ROOT].value",
    f"{_MAIN}.env[DEPLOYER_OUTPUT_KEEP].value",
    f"{_MAIN}.resources.requests.cpu",
    f"{_MAIN}.resources.requests.memory",
    f"{_MAIN}.resources.limits",
    f"{_MAIN}.resources.limits.cpu",
    f"{_MAIN}.resources.limits.memory",
    f"{_MAIN}.resources.limits.nvidia.com/gpu",
    f"{_MAIN}.volumeMounts",
    f"{POD}.volumes",
    f"{POD}.volumes[deployer-supervisor].configMap.name",
    f"{POD}.volumes[deployer-code].configMap.name",
    f"{POD}.volumes[deployer-code].configMap.optional",
    f"{POD}.volumes[deployer-key].secret.secretName",
    f"{POD}.volumes[deployer-key].secret.items",
    f"{POD}.volumes[shared-memory].emptyDir.sizeLimit",
)

_COMMON = ("metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations")
_OWNED: Mapping[str, tuple[str, ...]] = {
    "agent": JOB,
    "supervisor": (*_COMMON, "binaryData.agent.zip"),
    "code": (*_COMMON, "binaryData.code.tar.gz"),
    "volume": (
        "metadata.name",
        "metadata.labels",
        "metadata.annotations",
        "spec.claimRef.namespace",
        "spec.claimRef.name",
        "spec.nfs.server",
        "spec.nfs.path",
    ),
    "claim": (*_COMMON, "spec.volumeName"),
}


def owned_paths() -> Mapping[str, tuple[str, ...]]:
    """Return the paths that Python sets, by field of `Templates`.

    What lies below a path may change with it; an item of a list is named by its `name`.
    """
    return _OWNED
