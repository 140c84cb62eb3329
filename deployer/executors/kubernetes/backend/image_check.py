"""Asks the image of a backend that is about to be made what `method: bayes` needs, in a pod."""

from __future__ import annotations

from dataclasses import replace

from deployer.config.project import Project
from deployer.errors import KubeError
from deployer.executors.kubernetes.backend.deployment import find_image
from deployer.executors.kubernetes.backend.manifests import build_backend, load_backend_templates
from deployer.executors.kubernetes.diagnose.run_once import build_probe, run_probe
from deployer.images.bayes_package import build_question, has_package
from deployer.kube.client import Kube

SECONDS = 300  # of the pod, its pull included, which the backend's pod is then spared


def check_bayes_package(kube: Kube, project: Project, grows: bool) -> str:
    """Return why the image could not be asked, empty if it has all that bayes needs.

    Raises ImageError if it lacks the package, ConfigError if there is no image, KubeError.
    """
    cluster, settings = replace(project.kubernetes, namespace=kube.namespace), project.backend
    if settings.image is None:
        cluster = replace(cluster, image=find_image(project))
    *_, stateful_set = build_backend(load_backend_templates(), b"", settings, cluster)
    pod = stateful_set["spec"]["template"]["spec"]
    container = pod["containers"][0]
    question = build_question(container["command"][0])
    try:
        job = build_probe(pod, stateful_set["metadata"], question, SECONDS)
        answer = run_probe(kube, job, grows)
    except KubeError as error:
        if not error.forbidden:
            raise
        return error.message
    if has_package(container["image"], answer.exit_code):
        return ""
    return answer.reason.line if answer.reason else answer.last_line or "its pod did not end"
