"""A project's cluster, and the manifests of its agents and its embedded backend."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from deployer.config.credentials import UNKNOWN_OWNER, Owner, build_owner
from deployer.config.kubernetes import ClusterConfig
from deployer.config.project import Project
from deployer.errors import ConfigError, ImageError
from deployer.executors.kubernetes.agents.objects import path_of
from deployer.executors.kubernetes.agents.wanted import build_wanted
from deployer.executors.kubernetes.backend.deployment import build_backend, load_backend_templates
from deployer.executors.kubernetes.data.mounts import add_data
from deployer.executors.kubernetes.keys import name_keys
from deployer.executors.kubernetes.manifests.build import build_manifests, read_code_maps
from deployer.executors.kubernetes.manifests.job import find_container
from deployer.executors.kubernetes.manifests.templates import (
    Templates,
    find_template_image,
    load_templates,
)
from deployer.executors.plan import count_job_seconds
from deployer.images.code_archive import (
    build_backend_archive,
    build_code_archive,
    build_supervisor_zip,
)
from deployer.images.context import read_inputs
from deployer.images.image import find_pushed
from deployer.kube.client import Kube, open_kube
from deployer.kube.objects import CONFIG_MAP, JOB, Manifest, build_selector, created_at, stamp_owner
from deployer.model import Plan

LOG = logging.getLogger(__name__)

CODE = "code"
NOT_BUILT = "not-built"  # placeholder for an image that is not built yet


class ManifestBuilder:
    """Builds manifests from deployer.yaml and the templates.

    `section` has the agents' settings: the section `kubernetes:`, with `data:`.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self.section: ClusterConfig = add_data(project.kubernetes, project.data, project.folder)

    @cached_property
    def templates(self) -> Templates:
        """The YAML of k8s/ and the user's template. Raises ConfigError."""
        template = self._project.kubernetes.template
        return load_templates(self._project.folder / template if template else None)

    @property
    def named_owner(self) -> Owner:
        """Return the named owner, without asking a server."""
        named = self._project.owner
        return build_owner(named) if named else UNKNOWN_OWNER

    def draft(
        self, plan: Plan, section: ClusterConfig, owner: Owner, now: float = 0.0
    ) -> list[Manifest]:
        """Return what would be sent for a sweep that does not exist yet, the backend's first.

        Contacts nothing. Raises ConfigError, also for what the site would refuse.
        """
        by_identity = section.identity_audience is not None
        names = [agent.name for agent in plan.agents]
        secret, keys = name_keys(plan, names, owner, by_identity)
        code = build_code_archive(Path(plan.folder)) if section.code == "archive" else None
        agents = build_manifests(
            plan,
            section,
            self.templates,
            owner=owner,
            secret_name=secret,
            secret_keys=keys,
            supervisor=build_supervisor_zip(),
            code=code,
            max_seconds=count_job_seconds(plan.deadline, now),
        )
        backend: Sequence[Manifest] = ()
        if self._project.embedded:
            program, settings = build_backend_archive(), self._project.backend
            backend = build_backend(load_backend_templates(), program, settings, section)
        wanted = build_wanted(plan, owner, section.namespace)
        return [stamp_owner(one, owner) for one in (*backend, wanted, *agents)]

    def build(
        self, kube: Kube, plan: Plan, secret_name: str, secret_keys: Mapping[str, str]
    ) -> tuple[Manifest, ...]:
        """Return the manifests of the agents in `secret_keys`; a sweep keeps image and code.

        Reads the cluster and changes nothing. Raises ConfigError, ImageError, KubeError.
        """
        image = self._find_image(kube, plan)
        return build_manifests(
            replace(plan, agents=tuple(one for one in plan.agents if one.name in secret_keys)),
            replace(self.section, image=image, namespace=kube.namespace),
            self.templates,
            owner=kube.owner,
            secret_name=secret_name,
            secret_keys=secret_keys,
            supervisor=build_supervisor_zip(),
            code=self._find_code(kube, plan),
            max_seconds=count_job_seconds(plan.deadline, kube.now()),
        )

    def with_image(self, image: str | None = None) -> ClusterConfig:
        """Return the section with an image; by default that of `image:`, or a template's.

        `image` replaces the result of `image:`. Without it, the pushed image is looked up, and
        ImageError is raised if there is none. The backend and loaders also use the agents' image.
        """
        section = self.section
        if section.image:
            return section
        if self._project.image.repository:
            return replace(section, image=image or self.find_pushed())
        return replace(section, image=find_template_image(section, self._project.folder))

    def find_pushed(self) -> str:
        """Return the image of the folder's content; raises ImageError if it was not pushed."""
        project = self._project
        image = find_pushed(project.image, project.folder, project.environment)
        if image is None:
            said = f"{project.image.repository} has no image of this folder's current content"
            raise ImageError(said, "deployer image push")
        return image

    def name_image(self) -> str:
        """Return the image that `up` would push, with its digest if the registry has it."""
        settings, folder = self._project.image, self._project.folder
        if self._project.kubernetes.image or not settings.repository:
            return NOT_BUILT  # nothing is built
        why = "the image is not pushed yet"
        try:
            image = find_pushed(settings, folder, self._project.environment)
        except ImageError as error:
            image, why = None, error.message
        if image is None:
            image = f"{settings.repository}:{read_inputs(settings, folder).tag}"
            LOG.warning(f"using {image} without its digest: {why}; deployer image push")
        return image

    def _find_image(self, kube: Kube, plan: Plan) -> str | None:
        """Return the named image, else the sweep's own, else the one pushed for it.

        Agents that join later run in the same image as the others, even after another push.
        """
        if self.section.image or not self._project.image.repository:
            return self.section.image
        jobs = kube.list_objects(JOB, build_selector(plan.sweep_path))
        known = (find_container(job) for job in jobs if path_of(job) == plan.sweep_path)
        image = next((str(one["image"]) for one in known if one), None)
        return image or self.find_pushed()

    def _find_code(self, kube: Kube, plan: Plan) -> bytes | None:
        """Return the sweep's archive, built from the plan's folder if there is none yet.

        An archive with missing parts, from a failed first attempt, counts as none: no agent has
        started with it.
        """
        if self.section.code != "archive":
            return None
        selector = build_selector(plan.sweep_path, CODE)
        maps = [
            one
            for one in kube.list_objects(CONFIG_MAP, selector)
            if path_of(one) == plan.sweep_path and one.get("binaryData")
        ]
        found = read_code_maps(sorted(maps, key=created_at))
        return build_code_archive(Path(plan.folder)) if found is None else found


def open_kubeconfig(project: Project) -> Kube:
    """Return the client of the kubeconfig's cluster; raises ConfigError."""
    section = project.kubernetes
    kube = open_kube(
        section.context, section.namespace, environment=project.environment, owner=project.owner
    )
    named = project.named_cluster.get("context")
    if named and kube.context != named:  # in a pod, with its own account
        hint = "leave it out: the pod's own account is used"
        raise ConfigError("--context", f"no kubeconfig has the context '{named}'", hint)
    return kube


class Target:
    """The cluster that `--on` selects, and the builder of its manifests.

    Nothing is contacted before `kube` is read.
    """

    def __init__(self, name: str, project: Project) -> None:
        self.name = name
        self.project = project

    @property
    def on(self) -> str:
        """Return the value of `--on`, with options, that selects this cluster in a command."""
        return f"{self.name}{self.project.cluster_options}"

    @cached_property
    def kube(self) -> Kube:
        """The client of the cluster; raises ConfigError if the kubeconfig has no such cluster."""
        return open_kubeconfig(self.project)

    @cached_property
    def builder(self) -> ManifestBuilder:
        return ManifestBuilder(self.project)
