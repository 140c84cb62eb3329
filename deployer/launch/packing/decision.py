"""`--packing`: how many agents share a GPU, or this machine; given, or measured while they work."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace

from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.executors.base import Executor, SharesGpus, SharesPods
from deployer.executors.registry import find_executor
from deployer.launch.packing.packer import Packer
from deployer.launch.packing.pod_packing import PodPacker
from deployer.launch.request import Packing, Request
from deployer.launch.session import Session
from deployer.watch.packing.levels import Place
from deployer.watch.packing.measurement import Measurement
from deployer.watch.restarts import takes_runs

LOG = logging.getLogger(__name__)

MOST_IN_POD = 16  # as `agents_per_pod` has it
# JAX takes three quarters of a GPU at its start unless told not to: then none could join it.
GROWING_MEMORY = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}


def check_packing(executor: Executor, request: Request) -> None:
    """Refuse a measurement where agents cannot be added; raises ConfigError."""
    if request.packing is None or request.packing.agents is not None:
        return
    if request.one_run:
        said = "agents that leave after one run are not there long enough to be measured"
        raise ConfigError("--packing", said, "leave --one-run-per-job out, or give a number")
    if not isinstance(executor, SharesGpus | SharesPods):
        said = f"`auto` measures agents that share a GPU or a pod, which {executor.name} has not"
        raise ConfigError("--packing", said, "give a number: --packing 2")


def prepare_packing(project: Project, packing: Packing | None) -> Project:
    """Return the project for agents of which others will share a GPU, or a pod."""
    if packing is None:
        return project
    if packing.agents is None:
        return replace(project, environment={**GROWING_MEMORY, **project.environment})
    from deployer.config.sections.kubernetes import MOST_PER_POD  # pydantic

    if packing.agents > MOST_PER_POD and find_executor(project).runs_here:
        return project  # no pod has them
    return project.with_kubernetes(agents_per_pod=packing.agents)


def find_place(executor: Executor) -> Place:
    """Return what agents share."""
    if isinstance(executor, SharesPods):
        return Place(pod=True)
    gpus = len(executor.list_gpus()) if isinstance(executor, SharesGpus) else 0
    return Place(gpus or 1, gpu=gpus > 0)


def settle_packing(session: Session, packing: Packing | None) -> tuple[Session, Packer | None]:
    """Return the session for as many agents as are to begin, and who measures them, if anybody.

    There are never more than --replicas.
    """
    executor, most = session.executor, session.project.given_replicas
    if packing is None or (packing.agents is not None and not executor.runs_here):
        return session, None
    place = find_place(executor)
    if packing.agents is not None:
        count = packing.agents * place.count
        return _with_agents(session, min(count, most or count)), None
    packer = _open_packer(session, place, most)
    seconds = packer.measurement.patience.level
    LOG.info(
        f"measuring how many agents {place.name} bears: {seconds:.0f} s or more with each number"
    )
    return _with_agents(session, packer.agents), packer


def _open_packer(session: Session, place: Place, most: int | None) -> Packer:
    """Begin with as many agents for each place as are there; nobody has to leave for it."""
    executor, path = session.executor, session.sweep_path
    own = [agent for agent in executor.list_agents(path) if takes_runs(agent) and not agent.foreign]
    if place.pod:
        size = max(Counter(agent.pod for agent in own if agent.pod).values(), default=1)
        measurement = Measurement(place, min(most or MOST_IN_POD, MOST_IN_POD), size=size)
        return PodPacker(executor, path, measurement, total=most)
    place = replace(place, count=min(place.count, most or place.count))
    size = max(1, len(own) // place.count)
    return Packer(executor, path, Measurement(place, most, size=size))


def _with_agents(session: Session, count: int) -> Session:
    project = replace(session.project, replicas=count, given_replicas=count)
    return replace(session, project=project)
