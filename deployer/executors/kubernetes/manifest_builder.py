"""Builds the manifests of a plan for this cluster; a sweep keeps the code it began with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from deployer.config.sections.kubernetes import ClusterConfig
from deployer.executors.deadline import count_job_seconds
from deployer.executors.kubernetes.agents.agent_objects import path_of
from deployer.executors.kubernetes.manifests.build import build_manifests
from deployer.executors.kubernetes.manifests.config_maps import read_code_maps
from deployer.executors.kubernetes.manifests.job import find_container
from deployer.executors.kubernetes.manifests.templates import load_templates
from deployer.images.code_archive import build_code_archive, build_supervisor_zip
from deployer.kube.client import Kube
from deployer.kube.kinds import CONFIG_MAP, JOB, Manifest
from deployer.kube.names import build_selector
from deployer.kube.objects import created_at
from deployer.model import Plan

CODE = "code"


class ManifestBuilder:
    """Makes manifests for one cluster and namespace; a template's path begins at `folder`."""

    def __init__(
        self,
        kube: Kube,
        cluster: ClusterConfig,
        folder: Path,
        find_pushed: Callable[[], str] | None = None,
    ) -> None:
        self._kube = kube
        self.cluster = replace(cluster, namespace=kube.namespace)
        self._folder = folder
        self._find_pushed = find_pushed

    def build(
        self, plan: Plan, names: Sequence[str], secret_name: str, secret_keys: Mapping[str, str]
    ) -> tuple[Manifest, ...]:
        """Return the manifests of the named agents of a plan. Raises ConfigError, KubeError."""
        template = self.cluster.template
        return build_manifests(
            replace(plan, agents=tuple(agent for agent in plan.agents if agent.name in names)),
            replace(self.cluster, image=self._find_image(plan)),
            load_templates(self._folder / template if template else None),
            owner=self._kube.owner,
            secret_name=secret_name,
            secret_keys=secret_keys,
            supervisor=build_supervisor_zip(),
            code=self._find_code(plan),
            max_seconds=count_job_seconds(plan.deadline, self._kube.now()),
        )

    def _find_image(self, plan: Plan) -> str | None:
        """Return the image that is named, else the sweep's own, else what was pushed for it.

        Agents that join later run in the image in which the others do, whatever was pushed since.
        Raises ImageError if the section `image:` is there and nothing has been pushed.
        """
        if self.cluster.image or self._find_pushed is None:
            return self.cluster.image
        jobs = self._kube.list_objects(JOB, build_selector(plan.sweep_path))
        known = (find_container(job) for job in jobs if path_of(job) == plan.sweep_path)
        image = next((str(one["image"]) for one in known if one), None)
        return image or self._find_pushed()

    def _find_code(self, plan: Plan) -> bytes | None:
        """Return the sweep's archive, made from the plan's folder if there is none yet.

        If a first try failed before all parts of it were there, no agent has begun with it, and
        it counts as none.
        """
        if self.cluster.code != "archive":
            return None
        selector = build_selector(plan.sweep_path, CODE)
        maps = [
            one
            for one in self._kube.list_objects(CONFIG_MAP, selector)
            if path_of(one) == plan.sweep_path and one.get("binaryData")
        ]
        found = read_code_maps(sorted(maps, key=created_at))
        return build_code_archive(Path(plan.folder)) if found is None else found
