"""What is made for a sweep and costs money, and how it is taken down again."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from deployer.errors import (
    BackendError,
    CloudError,
    ConfigError,
    DeployerError,
    KubeError,
    SweepFailed,
)
from deployer.executors.base import Executor, HostsBackend, ProvidesCluster, Removal, Saved
from deployer.launch.agents.scaling import end_agents
from deployer.launch.agents.stop_notice import tell_who_lasts
from deployer.launch.remains import describe_bill
from deployer.launch.session import Session
from deployer.model import SweepPath
from deployer.sweeps.records import Records, SweepRecord

LOG = logging.getLogger(__name__)


@contextmanager
def closing(session: Session, take_down: bool) -> Iterator[None]:
    """Once results have been read, good or bad, take down what was made for them if that is wanted.

    Else, after a good end, tell what goes on costing.
    """
    failure = None
    try:
        yield
    except SweepFailed as error:
        failure = error
    if take_down:
        _take_down(session)
    if failure:
        raise failure
    if not take_down:
        for line in describe_bill(session.executor):
            LOG.info(line)


def note_cluster(executor: Executor) -> None:
    """Note the cluster that is about to be made from this folder: `down --cluster` means it."""
    if not isinstance(executor, ProvidesCluster):
        return
    folder, cloud = str(executor.project.folder), executor.cloud
    key = hashlib.sha256(f"{folder}\0{cloud}".encode()).hexdigest()[:32]
    noted = SweepRecord(key, "", "", "", folder, "", "", 0.0, executor.name, cloud=cloud)
    Records.load().add(noted)


def take_down_cluster(
    executor: ProvidesCluster,
    path: SweepPath | None,
    *,
    everything: bool,
    removal: Removal = Removal(),
) -> None:
    """End the agents in a cluster of ours, then delete it and all that came with it.

    Refuses while agents of other sweeps than `path` work there, unless `everything` is meant. What
    an embedded backend in it holds is copied here first, unless `removal` gives it up; where that
    cannot be proven the cluster stays. Raises DeployerError.
    """
    try:
        _end_all_agents(executor, path, everything=everything)
    except CloudError as error:
        LOG.info(error.message)  # what is left of it is deleted all the same
    except KubeError as error:
        if not error.passing:
            raise
        LOG.info(f"its agents end with the cluster: {error.message}")
    if not removal.delete_data:
        removal = replace(removal, copied=_save_results(executor))
    executor.remove(removal)


def _save_results(executor: Executor) -> bool:
    """Copy the results that would go with the cluster; return whether there were any.

    Raises BackendError, so that it stays.
    """
    if not isinstance(executor, HostsBackend):
        return False
    try:
        saved = executor.save_results()
    except DeployerError as error:
        silent = isinstance(error, KubeError) and error.passing
        if not silent or executor.project.embedded:
            raise _explain_kept(error, executor.on) from error
        LOG.info(f"whether the cluster holds results is unknown: {error.message}")
        return False
    if saved:
        _note_copy(saved)
    return saved is not None


def _note_copy(saved: Saved) -> None:
    """Note that the sweeps of a cluster's embedded backend are in a folder of this machine now."""
    there = (saved.cluster, saved.url)
    gone = dict.fromkeys(("on", "backend_on", "cluster", "context", "namespace", "cloud"), "")
    here = {**gone, "pinned": False, "data": str(saved.folder)}
    Records.load().change(lambda one: (one.cluster, one.base_url) == there, **here)


def _explain_kept(error: DeployerError, on: str) -> BackendError:
    return BackendError(
        f"the cluster stays, because copying its results failed: {error.message}",
        f"{error.hint or 'type the command again'}; then deployer down --cluster --on {on} "
        f"copies and deletes, or deployer down --all --cluster --delete-data --on {on} gives the "
        "results up",
    )


def _end_all_agents(executor: Executor, path: SweepPath | None, *, everything: bool) -> None:
    working = {agent.sweep_path for agent in executor.list_agents() if agent.alive}
    others = sorted(working - {str(path)})
    if others and not everything:
        said = f"agents of {', '.join(others)} work in the cluster"
        raise ConfigError(
            "--cluster", said, f"deployer down --all --cluster --on {executor.on} ends them as well"
        )
    with tell_who_lasts(executor, None):
        end_agents(executor, None)


def _take_down(session: Session) -> None:
    if isinstance(session.executor, ProvidesCluster):
        take_down_cluster(session.executor, session.path, everything=False)
        return
    end_agents(session.executor, session.sweep_path)
    LOG.info(f"{session.path}: deleted everything made for its agents; results stay")
