"""From a plan to the manifests of this cluster: the code that a sweep began with stays its code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from deployer.archive import build_code_archive, build_supervisor_zip
from deployer.cluster.sighting import created_at, path_of
from deployer.cluster_config import ClusterConfig
from deployer.deadline import JOB_PATIENCE_SECONDS
from deployer.kube import CONFIG_MAP, Kube, Manifest
from deployer.manifests import build_manifests, load_templates, read_code_maps
from deployer.names import build_selector
from deployer.plan import Plan

CODE = "code"


class ManifestBuilder:
    """Makes manifests for one cluster and namespace; a template's path begins at `folder`."""

    def __init__(self, kube: Kube, cluster: ClusterConfig, folder: Path) -> None:
        self._kube = kube
        self._cluster = replace(cluster, namespace=kube.namespace)
        self._folder = folder

    def build(
        self, plan: Plan, names: Sequence[str], secret_name: str, secret_keys: Mapping[str, str]
    ) -> tuple[Manifest, ...]:
        """Return the manifests of the named agents of a plan. Raises ConfigError, KubeError."""
        template = self._cluster.template
        return build_manifests(
            replace(plan, agents=tuple(agent for agent in plan.agents if agent.name in names)),
            self._cluster,
            load_templates(self._folder / template if template else None),
            secret_name=secret_name,
            secret_keys=secret_keys,
            supervisor=build_supervisor_zip(),
            code=self._find_code(plan),
            max_seconds=self._count_seconds(plan),
        )

    def _count_seconds(self, plan: Plan) -> float | None:
        """Return how long from now a Job may last, a little more than its agent may."""
        if plan.deadline is None:
            return None
        return plan.deadline - self._kube.now() + JOB_PATIENCE_SECONDS

    def _find_code(self, plan: Plan) -> bytes | None:
        """Return the sweep's archive, made from the plan's folder if there is none yet.

        If a first try failed before all parts of it were there, no agent has begun with it, and
        it counts as none.
        """
        if self._cluster.code != "archive":
            return None
        selector = build_selector(plan.sweep_path, CODE)
        maps = [
            one
            for one in self._kube.list_objects(CONFIG_MAP, selector)
            if path_of(one) == plan.sweep_path and one.get("binaryData")
        ]
        found = read_code_maps(sorted(maps, key=created_at))
        return build_code_archive(Path(plan.folder)) if found is None else found
