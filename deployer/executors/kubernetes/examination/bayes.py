"""Whether the image of the embedded backend can search by a model: asked of it with `--deep`."""

from __future__ import annotations

from collections.abc import Iterator

from deployer.config.project import Project
from deployer.executors.kubernetes.backend.deployment import find_image, is_made
from deployer.executors.kubernetes.backend.image_check import check_bayes_modules
from deployer.findings import Finding, right, unknown
from deployer.images.bayes_modules import list_modules
from deployer.kube.client import Kube


def examine_bayes(kube: Kube, project: Project, grows: bool, deep: bool) -> Iterator[Finding]:
    """Ask the image of a backend that is not made yet. Raises ImageError, KubeError."""
    if is_made(kube):
        return  # the server says it itself
    image = project.backend.image or find_image(project)
    subject, wanted = f"image {image or project.image.repository}", " and ".join(list_modules())
    if image is None or not deep:
        said = f"`up` checks in a pod that it has {wanted}, which method bayes needs"
        yield unknown(
            "bayes", subject, said, "" if image is None else "deployer doctor --deep FILE"
        )
    elif why := check_bayes_modules(kube, project, grows, lambda _: None):
        yield unknown("bayes", subject, f"whether it has {wanted} is not checked: {why}")
    else:
        yield right("bayes", subject, f"has {wanted}, which method bayes needs")
