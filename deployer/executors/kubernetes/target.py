"""A cluster as `--on kubernetes` names it: the kubeconfig's, as deployer.yaml has it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from deployer.config.causes import Cause
from deployer.config.owner import UNKNOWN_OWNER, Owner, build_owner
from deployer.config.project import Project
from deployer.config.sections.data import DataSet
from deployer.config.sections.kubernetes import ClusterConfig
from deployer.data.store import Store
from deployer.errors import DeployerError, ImageError
from deployer.executors.checks import Question
from deployer.executors.deadline import count_job_seconds
from deployer.executors.kubernetes.backend.deployment import (
    ensure_backend,
    is_made,
    require_backend,
)
from deployer.executors.kubernetes.backend.download import save_backend
from deployer.executors.kubernetes.backend.image_check import check_bayes_modules
from deployer.executors.kubernetes.backend.manifests import (
    KEY_SECRET,
    NAME,
    build_backend,
    build_url,
    load_backend_templates,
)
from deployer.executors.kubernetes.backend.tunnel import build_pages_url, open_forward
from deployer.executors.kubernetes.backend.users import note_user
from deployer.executors.kubernetes.data.claims import delete_claim
from deployer.executors.kubernetes.data.mounts import add_data, name_claim
from deployer.executors.kubernetes.data.outputs import add_outputs, find_outputs
from deployer.executors.kubernetes.data.store_secret import read_secret
from deployer.executors.kubernetes.data.volumes import open_volume
from deployer.executors.kubernetes.diagnose.case import Case, list_made, list_own
from deployer.executors.kubernetes.diagnose.doctor import examine_bayes, examine_cluster, mend
from deployer.executors.kubernetes.diagnose.references import Reference
from deployer.executors.kubernetes.diagnose.rights import MAKE_BACKEND, check_rights
from deployer.executors.kubernetes.executor import KubernetesExecutor
from deployer.executors.kubernetes.keys.agent_keys import name_keys
from deployer.executors.kubernetes.manifests.build import build_manifests
from deployer.executors.kubernetes.manifests.demands import check_demands
from deployer.executors.kubernetes.manifests.inputs import load_inputs
from deployer.executors.kubernetes.manifests.preemption import warn_about_spot
from deployer.executors.kubernetes.manifests.templates import (
    find_template_image,
    load_templates,
    warn_about_variables,
)
from deployer.executors.kubernetes.surroundings import read_surroundings
from deployer.executors.target import (
    Demand,
    HostedBackend,
    Limits,
    Saved,
    Surroundings,
    Target,
)
from deployer.findings import Finding
from deployer.images.backend_archive import build_backend_archive
from deployer.images.bayes_modules import list_modules
from deployer.images.code_archive import warn_about_left_out
from deployer.images.context import read_inputs
from deployer.images.image import find_pushed, push_image
from deployer.kube.client import Kube, open_kube
from deployer.kube.identity import identify_cluster
from deployer.kube.kinds import JOB, SECRET, Manifest, kind_of
from deployer.kube.names import stamp_owner
from deployer.model import Plan

LOG = logging.getLogger(__name__)

NAMESPACE = "NAMESPACE"  # of the kubeconfig, which is not read
NOT_BUILT = "not-built"  # stands for what is not built yet
NO_PODS = ("cluster", "namespace")  # what is wrong where no pod can be asked


def open_kubeconfig(project: Project, context: str | None, namespace: str | None) -> Kube:
    """Return the client of the kubeconfig's cluster; what is named counts more than the file's."""
    section = project.kubernetes
    return open_kube(
        context or section.context,
        namespace or section.namespace,
        environment=project.environment,
        owner=project.owner,
    )


class KubernetesTarget(Target):
    """Agents as Jobs, with the embedded backend beside them."""

    hosts_backend = True
    packs = True
    grows = False  # nodes come which are not there yet

    def open(self) -> KubernetesExecutor:
        """Return the executor; raises ConfigError if the kubeconfig has no such cluster."""
        project, kube = self.project, self.open_kube()
        return KubernetesExecutor(
            kube,
            self.section,
            project.folder,
            find_pushed=self.pushed,
            hints=self.hints,
            beside=lambda: self._list_beside(self._has_backend(kube)),
            data=project.data,
        )

    @property
    def hints(self) -> Mapping[Cause, str]:
        """Return what the site's profile adds to the reasons of a wait."""
        return self.project.profile.hints if self.project.profile else {}

    @property
    def section(self) -> ClusterConfig:
        """Return what agents get: the section `kubernetes:`, `data:` and `outputs:` for them."""
        project = self.project
        cluster = add_data(project.kubernetes, project.data, project.folder)
        return add_outputs(cluster, project.outputs)

    def open_kube(self, namespace: str | None = None) -> Kube:
        """Return the client of the cluster; a namespace counts more than deployer.yaml's."""
        return open_kubeconfig(self.project, None, namespace)

    def open_backend(self, *, make: bool = True) -> HostedBackend:
        """Return the backend in the cluster, through a port that lasts as long as we do."""
        kube = self.open_kube()
        if make:
            self.prepare_backend(kube)
            backend = ensure_backend(kube, self.project, self.name)
        else:
            backend = require_backend(kube, self.name)
        reached = open_forward(kube, backend).url
        source = f"Secret {KEY_SECRET} in {backend.namespace}"
        pages = build_pages_url(kube)
        note = partial(note_user, kube)
        cluster = identify_cluster(kube)
        return HostedBackend(backend.url, reached, pages, backend.key, source, note, cluster)

    def check_bayes(self) -> None:
        """Ask the image of a backend that is not made yet for the modules of `method: bayes`."""
        kube = self.open_kube()
        if is_made(kube):
            return  # it says itself what it lacks
        check_rights(kube, MAKE_BACKEND, self.name)
        LOG.info(
            f"method bayes: checking in a pod that the image has {' and '.join(list_modules())}"
        )
        if why := check_bayes_modules(kube, self.project, self.grows):
            LOG.warning(f"it is not checked, and the backend reports what it lacks: {why}")

    def save_results(self) -> Saved | None:
        """Copy what the backend in the cluster holds to a folder here; None if there is none."""
        return save_backend(self.open_kube(), self.project, self.name)

    def read_credentials(self, data: DataSet) -> Mapping[str, str] | None:
        """Return what the data set's Secret holds; raises DataError if there is none."""
        if data.secret is None:
            return None
        return read_secret(self.open_kube(), data.secret, data.url or "")

    def open_outputs(self) -> Store | None:
        """Return the volume of checkpoints, if it outlives pods, behind a loader pod."""
        section = self.project.kubernetes
        template = self.project.folder / section.template if section.template else None
        volume = find_outputs(section, load_templates(template))
        return self.open_data(volume) if volume else None

    def open_data(self, data: DataSet, size_bytes: int | None = None) -> Store:
        """Return a data set's volume, behind a loader pod that ends when the store is closed."""
        kube, folder = self.open_kube(), self.project.folder
        return open_volume(kube, self._find_loader_image(), data, folder, size_bytes)

    def delete_data(self, data: DataSet) -> bool:
        """Delete the claim if we made it, else what is in the volume."""
        kube, claim = self.open_kube(), name_claim(data, self.project.folder)
        if data.nfs or not delete_claim(kube, claim):
            return super().delete_data(data)
        LOG.info(f"deleted PersistentVolumeClaim {claim} in namespace {kube.namespace}")
        return True

    def check(self, plan: Plan, limits: Limits) -> None:
        """Refuse what manifests cannot be built from, or the site would; raises ConfigError."""
        super().check(plan, limits)
        self._build(plan, self._with_image(NOT_BUILT), 0.0)

    def examine(self, demand: Demand) -> Sequence[Finding]:
        """Return what is right and wrong with the cluster for these agents."""
        return Question("cluster", self.name, lambda: self._examine(demand)).examine()

    def mend(self, finding: Finding) -> bool:
        """Make the namespace or the ServiceAccount if they are missing; tell what was made."""
        return mend(self.open_kube(), finding)

    def _examine(self, demand: Demand) -> Sequence[Finding]:
        project = self.project
        found = examine_cluster(self.open_kube(), lambda: self._build_case(demand))
        if not demand.bayes or any(one.is_error and one.code in NO_PODS for one in found):
            return found
        ask = partial(examine_bayes, self.open_kube(), project)
        return (*found, *Question("bayes", "method bayes", ask).examine())

    def _build_case(self, demand: Demand) -> Case:
        """Return what is examined: the cluster, and the first agent's Job if there can be one."""
        project, kube = self.project, self.open_kube()
        section = replace(self.section, namespace=kube.namespace)
        manifests: Sequence[Manifest] = ()
        beside: Collection[Reference] = ()
        made = False
        with contextlib.suppress(DeployerError):  # which `check` says
            image = self._with_image(NOT_BUILT).image
            manifests = self._build(demand.plan, replace(section, image=image), 0.0)
            made = self._has_backend(kube)
            beside = self._list_beside(made)
        return Case(
            kube=kube,
            section=section,
            folder=project.folder,
            job=next((one for one in manifests if kind_of(one) == JOB), None),
            pods=section.count_pods(demand.agents),
            own=frozenset((*list_own(manifests, demand.plan, self._owner), *beside)),
            data=project.data,
            backend=project.backend if project.embedded else None,
            backend_made=made,
            image=project.image,
            environment=project.environment,
            grows=self.grows,
            on=self.name,
        )

    def provision(self, limits: Limits) -> None:
        """Build and push the image of the section `image:`, unless the registry has it."""
        project = self.project
        if project.image.repository and not project.kubernetes.image:
            push_image(project.image, project.folder, project.environment)

    def preview(self, plan: Plan, now: float) -> Sequence[object]:
        """Return the manifests; contacts nothing but the registry of `image:`."""
        return self._build(plan, self._with_image(self._name_image()), now)

    def read_surroundings(self) -> Surroundings:
        """Return the GPUs and drivers of the nodes; the image has the packages."""
        return read_surroundings(self.open_kube())

    @property
    def backend_url(self) -> str:
        """Return the address of the backend's Service."""
        return build_url(NAME, self.project.kubernetes.namespace or NAMESPACE)

    def list_warnings(self, plan: Plan) -> Sequence[str]:
        """Name files that are left out of the archive, and spot nodes without checkpoints."""
        as_it_is = self.has_folder and not self.project.code.commit
        left_out = warn_about_left_out(self.project.folder) if as_it_is else ""
        # Without the archive, which takes time.
        manifests = self._build(plan, replace(self._with_image(NOT_BUILT), code="image"), 0.0)
        job = next(one for one in manifests if kind_of(one) == JOB)
        doubts = (left_out, warn_about_spot(job, self._spot_pools), warn_about_variables(job))
        return [*filter(None, (*doubts, self._warn_about_namespace()))]

    def _warn_about_namespace(self) -> str:
        """Name the namespace of a template that is not the agents'."""
        path = self.project.kubernetes.template
        job = load_templates(self.project.folder / path).template if path else None
        named = job["metadata"].get("namespace") if job else None
        if not named or named == self.project.kubernetes.namespace:
            return ""
        setting = f"kubernetes: {{namespace: {named}}} in deployer.yaml is"
        return f"{path}: namespace {named} is not used: {setting}"

    @property
    def _spot_pools(self) -> str:
        """Name the spot pools for which agents are meant; empty where only the Job can say."""
        return ""

    @property
    def queued_seconds(self) -> float | None:
        """Return `max_time`, which begins when a Job is made; with a queue, when it may run."""
        section = self.project.kubernetes
        if section.queue or section.max_time is None:
            return None
        return section.max_time.total_seconds()

    @property
    def pushed(self) -> Callable[[], str] | None:
        """Return what finds the image that was pushed; None without the section `image:`."""
        return self._find_pushed if self.project.image.repository else None

    def _find_pushed(self) -> str:
        """Return the image of what is in the folder; raises ImageError if it was not pushed."""
        project = self.project
        image = find_pushed(project.image, project.folder, project.environment)
        if image is None:
            said = f"{project.image.repository} has no image of what is in this folder now"
            raise ImageError(said, "deployer image push")
        return image

    @property
    def has_folder(self) -> bool:
        """Tell whether agents work on an archive of this folder."""
        return self.project.kubernetes.code == "archive"

    def _find_loader_image(self) -> ClusterConfig:
        """Return the section with the agents' image; raises ImageError if none was pushed."""
        pushed = None if self.project.kubernetes.image else self.pushed
        return self._with_image(pushed() if pushed else "")

    def _with_image(self, image: str) -> ClusterConfig:
        """Return the section with an image if none is named: what `image:` builds, or a template's.

        The backend and loaders have the agents' image, too.
        """
        section, project = self.section, self.project
        if section.image:
            return section
        other = None if project.image.repository else find_template_image(section, project.folder)
        return replace(section, image=image if project.image.repository else other)

    def _name_image(self) -> str:
        """Name the image that `up` would push, by its digest if the registry has it already."""
        settings, folder = self.project.image, self.project.folder
        if self.project.kubernetes.image or not settings.repository:
            return ""
        why = "it is not pushed yet"
        try:
            image = find_pushed(settings, folder, self.project.environment)
        except ImageError as error:
            image, why = None, error.message
        if image is None:
            image = f"{settings.repository}:{read_inputs(settings, folder).tag}"
            LOG.warning(f"{image} is named without its digest: {why}; deployer image push")
        return image

    def _build(self, plan: Plan, cluster: ClusterConfig, now: float) -> list[Manifest]:
        secret, keys = name_keys(plan, [agent.name for agent in plan.agents], self._owner)
        inputs = load_inputs(cluster, self.project.folder, Path(plan.folder))
        agents = build_manifests(
            plan,
            cluster,
            inputs.templates,
            owner=self._owner,
            secret_name=secret,
            secret_keys=keys,
            supervisor=inputs.supervisor,
            code=inputs.code,
            max_seconds=count_job_seconds(plan.deadline, now),
        )
        if self.project.profile:
            check_demands(self.project.profile, agents)
        return [stamp_owner(one, self._owner) for one in (*self._build_backend(cluster), *agents)]

    @property
    def _owner(self) -> Owner:
        """Return the owner that is named; no server is asked for another."""
        return build_owner(self.project.owner) if self.project.owner else UNKNOWN_OWNER

    def _has_backend(self, kube: Kube) -> bool:
        return self.project.embedded and is_made(kube)

    def _list_beside(self, made: bool) -> Collection[Reference]:
        """Return what is made for the embedded backend, if there is none yet."""
        if not self.project.embedded or made:
            return ()
        return (
            *list_made(self._build_backend(self._with_image(NOT_BUILT))),
            Reference(SECRET, KEY_SECRET),
        )

    def _build_backend(self, cluster: ClusterConfig) -> Sequence[Manifest]:
        if not self.project.embedded:
            return ()
        program = build_backend_archive()
        return build_backend(load_backend_templates(), program, self.project.backend, cluster)
