"""What the doctor says of `method: bayes`, whose image only a pod can look into."""

from __future__ import annotations

from collections.abc import Iterator

from deployer.config.project import Project
from deployer.executors.kubernetes.backend.deployment import find_image, is_made
from deployer.findings import Finding, unknown
from deployer.images.bayes_modules import list_modules
from deployer.kube.client import Kube


def examine_bayes(kube: Kube, project: Project) -> Iterator[Finding]:
    """Say that `up` asks the image of a backend that is not made yet. Raises ImageError, KubeError.

    A backend that is there reports itself what it lacks.
    """
    if not is_made(kube):
        image = project.backend.image or find_image(project) or project.image.repository
        modules = " and ".join(list_modules())
        said = f"`up` checks in a pod that it has {modules}, which method bayes needs"
        yield unknown("bayes", f"image {image}", said)
