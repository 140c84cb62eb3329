"""The agents' image: its pull secrets, and the image built from the folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from deployer.config.kubernetes import Gpu
from deployer.errors import Finding, KubeError, edit, right, unknown, warning
from deployer.executors.kubernetes.diagnose.case import Case
from deployer.executors.kubernetes.gpu_nodes import GpuProducts
from deployer.images.builders import choose_builder
from deployer.images.image import (
    OLDER,
    explain_mismatch,
    find_pushed,
    predict_image_labels,
    read_architectures,
)
from deployer.kube.objects import SECRET, KubeObject

FIELD = ".dockerconfigjson"
PULL_TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")
OWN_FILE = '"$HOME/.docker/config.json"'


def examine_image(case: Case) -> Iterator[Finding]:
    """Check the pull secrets, and the image built from the folder. Raises KubeError.

    No registry is contacted from here: nodes have their own logins, caches and networks.
    """
    if case.section.image is None and case.image.repository:
        yield _examine_built(case)
        yield from compare_gpus(case, predict_image_labels(case.image, case.folder))
    if case.section.image_pull_policy == "Never":
        return  # nodes need not pull existing images
    for name in case.section.image_pull_secrets:
        try:
            trouble = judge_secret(case, name, case.kube.get(SECRET, name))
        except KubeError as error:
            if not error.forbidden:
                raise
            trouble = unknown("pull-secret", f"Secret {name}", "no permission to read it")
        if trouble:
            yield trouble


def compare_gpus(case: Case, labels: Mapping[str, str]) -> Iterator[Finding]:
    """Yield GPUs for which the image's PyTorch has no kernels, if both are known."""
    architectures = read_architectures(labels)
    for gpu in _list_gpus(case) if architectures else ():
        if said := explain_mismatch(architectures, gpu):
            yield unknown("gpu-architecture", f"GPU {gpu}", said, OLDER)


def _list_gpus(case: Case) -> Sequence[str]:
    """Return the GPU in deployer.yaml, else those of the nodes, if they may be listed."""
    gpu = case.section.gpu or Gpu()
    if gpu.product or not gpu.count:
        return [gpu.product] if gpu.product and gpu.count else []
    found = GpuProducts(case.kube, gpu.product_label).read({""})
    return sorted({product for product in found.values() if product})


def _examine_built(case: Case) -> Finding:
    """Return whether the folder's content is pushed, else which local tool would build it.

    Raises ImageError.
    """
    subject = f"image {case.image.repository}"
    if find_pushed(case.image, case.folder, case.environment):
        return right("image", subject, "its registry has the image of this folder")
    builder = choose_builder(case.image.builder, case.environment)
    return right("image", subject, f"`up` builds it with {builder.name}, and pushes it")


def judge_secret(case: Case, name: str, secret: KubeObject | None) -> Finding | None:
    """Return why nodes cannot use a pull secret; None if they can; pure."""
    if secret is None:
        said = "the pull secret is missing"
        return warning("pull-secret", f"Secret {name}", said, _make_secret(case, name))
    return judge_type(case, secret)


def judge_type(case: Case, secret: KubeObject) -> Finding | None:
    """Return the finding that nodes ignore a Secret of the wrong type; None if ok; pure."""
    kind = secret.get("type", "Opaque")
    if kind in PULL_TYPES:
        return None
    name = secret["metadata"]["name"]
    said = f"is of type {kind}, which nodes ignore: a pull secret's is {PULL_TYPES[0]}"
    return warning("pull-secret", f"Secret {name}", said, _make_another(case, name))


def _make_another(case: Case, name: str) -> str:
    new = f"{name}-pull"
    return f"{_make_secret(case, new)}; {edit('kubernetes', f'image_pull_secrets: [{new}]')}"


def _make_secret(case: Case, name: str) -> str:
    """Return the command that creates a pull secret from the local `docker login`."""
    kind = f"--type=kubernetes.io/dockerconfigjson --from-file={FIELD}={OWN_FILE}"
    return f"kubectl create secret generic {name} {case.where} {kind}"
