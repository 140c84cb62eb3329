"""The paid resources of a sweep: creation, removal, and a list of those that still exist."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote

from deployer.config.project import Project
from deployer.errors import (
    BackendError,
    CloudError,
    ConfigError,
    DeployerError,
    KubeError,
    SweepFailed,
)
from deployer.executors.base import (
    Belongings,
    Executor,
    Removal,
    Saved,
)
from deployer.executors.registry import find_executor, list_names
from deployer.launch.request import Session
from deployer.launch.scaling import end_agents, report_slow_stop
from deployer.model import SweepPath
from deployer.sweeps.records import Records, SweepRecord
from deployer.text import format_count, format_seconds, format_usd

LOG = logging.getLogger(__name__)

RecordedTarget = tuple[str, str, str]  # as in records
Describe = Callable[[BaseException], Iterable[str]]


@contextmanager
def reporting_remains(describe: Describe) -> Iterator[None]:
    """On failure or interrupt of the block, report the resources that still exist."""
    try:
        yield
    except BaseException as failure:
        for line in dict.fromkeys(describe(failure)):
            LOG.info(line)
        raise


def describe_file(project: Project, file: Path, failure: BaseException) -> Iterator[str]:
    """Yield the resources of all sweeps of a file: live agents, and the clusters they ran in.

    After a ConfigError, which comes before any contact, only this machine is checked.
    """
    records = Records.load().made_from(file)
    if isinstance(failure, ConfigError):
        records = tuple(one for one in records if _runs_here(project, one.on))
    yield from describe_agents(project, list_places(records), failure)
    places = {record.on for record in records}
    if not isinstance(failure, ConfigError):
        places.add(project.on)
    for on in sorted(places & {*list_names()}):
        yield from describe_bill(find_executor(project, on), failure)


def _runs_here(project: Project, on: str) -> bool:
    return on in list_names() and find_executor(project, on).runs_here


def list_places(records: Iterable[SweepRecord]) -> list[tuple[str, RecordedTarget]]:
    """Return each sweep's path and the location of its last agents."""
    return [(record.sweep_path, record.place) for record in records if record.sweep_path]


def describe_agents(
    project: Project,
    sweeps: Iterable[tuple[str, RecordedTarget]],
    failure: BaseException | None = None,
    role: str = "",
) -> Iterator[str]:
    """Yield a line for each sweep with live agents; `sweeps` are paths with their locations.

    Each location is queried once. `role` follows a sweep's path. Unreachable locations are
    reported.
    """
    paths: dict[RecordedTarget, list[str]] = {}
    for path, place in dict.fromkeys(sweeps):
        if place[0] in list_names():
            paths.setdefault(place, []).append(path)
    for (on, context, namespace), known in paths.items():
        try:
            there = project.with_cluster(context, namespace) if namespace else project
            executor = find_executor(there, on)
            agents = executor.list_agents(known[0] if len(known) == 1 else None)
            counts = Counter(agent.sweep_path for agent in agents if agent.alive)
            for path in (path for path in known if counts[path]):
                yield _describe(project, executor, path, on, counts[path], role)
        except DeployerError as error:
            gone = isinstance(error, CloudError) and error.reason == "NOT_FOUND"
            if not gone:
                yield _say_unchecked(f"agents still run on {on}", error, failure)


def describe_others(session: Session, file: Path) -> Iterator[str]:
    """Yield a line for each other sweep of a file that has live agents."""
    places = list_places(Records.load().made_from(file))
    others = [one for one in places if one[0] != session.sweep_path]
    yield from describe_agents(session.project, others, role=f", another sweep of {file.name},")


def describe_others_here(project: Project, path: str) -> Iterator[str]:
    """Yield a line for each other sweep of the project folder that has live agents."""
    others = [one for one in list_places(Records.load().made_in(project.folder)) if one[0] != path]
    yield from describe_agents(project, others, role=", another sweep of this folder,")


def describe_owners(
    others: Iterable[Belongings], now: float, on: str = "kubernetes"
) -> Iterator[str]:
    """Yield a sentence for each other owner, with the command that lists their agents.

    It names no command that ends them, because users paste such lines.
    """
    for one in others:
        age = format_seconds(now - one.created_at)
        agents = format_count(one.agents, "agent")
        what = f"{agents} and {format_count(one.objects, 'object')}" if one.objects else agents
        where = f" in namespace {one.namespace}" if one.namespace else ""
        named = ", ".join(one.sweeps)
        whose, hint = "not yours", f"see them: {_build_look(one, on)}"
        if one.by_session:
            whose = "yours in an earlier session"
            look = f"deployer agents list --all --on {on} --owner {quote(one.owner)}"
            hint = f"any command acts for that session with its --owner: {look}"
        yield f"{whose}: {what} of {one.owner}{where}, up to {age} old: {named} ({hint})"


def _build_look(belongings: Belongings, on: str) -> str:
    """Return the command that lists another owner's resources, independent of the folder."""
    return "; ".join(f"deployer agents list {path} --on {on}" for path in belongings.sweeps)


def describe_elsewhere(executor: Executor, path: str) -> Iterator[str]:
    """Yield the command that lists a sweep's agents where they last started, if not here."""
    for record in Records.load().of(path):
        if record.on in list_names() and record.is_elsewhere(executor.name, executor.address):
            look = f"deployer agents list {path}{record.place_options}"
            yield f"agents of {path} were started elsewhere before; see them: {look}"


def describe_bill(executor: Executor, failure: BaseException | None = None) -> Iterator[str]:
    """Yield the state of a cluster that costs money, or that it was not checked."""
    if executor.cluster:
        yield from describe_cloud(executor.cluster.describe_bill, failure)


def describe_cloud(
    describe: Callable[[], Iterable[str]], failure: BaseException | None
) -> Iterator[str]:
    try:
        yield from describe()
    except DeployerError as error:
        yield _say_unchecked("a cluster made by deployer still exists", error, failure)


def _say_unchecked(what: str, error: DeployerError, failure: BaseException | None) -> str:
    """Omit the reason if it is the `failure`, which is printed next."""
    reason = "" if error.message == str(failure) else f": {error.message}"
    return f"could not check whether {what}{reason}"


def _describe(
    project: Project, executor: Executor, path: str, on: str, count: int, role: str
) -> str:
    agents = executor.list_agents(path) if executor.cluster else ()
    usd = executor.cluster.get_usd_per_hour(agents) if executor.cluster else None
    price = f", {format_usd(usd)} an hour with their cluster" if usd is not None else ""
    runs = "runs" if count == 1 else "run"
    option = f" --on {on}" if project.explicit_on and project.on != on else ""
    who = f"{format_count(count, 'agent')} of {path}"
    return f"{who}{role} still {runs}{price}: deployer down {path}{option}"


@contextmanager
def closing(session: Session, take_down: bool) -> Iterator[None]:
    """After reading results, good or bad, take down the sweep's resources if wanted.

    Otherwise, after a success, report what still costs money.
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
    """Record the cluster that is about to be made from this folder, for `down --cluster`."""
    if executor.cluster is None:
        return
    folder, cloud = str(executor.project.folder), executor.cluster.name
    key = hashlib.sha256(f"{folder}\0{cloud}".encode()).hexdigest()[:32]
    noted = SweepRecord(key, "", "", "", folder, "", "", 0.0, executor.name, cloud=cloud)
    Records.load().add(noted)


def take_down_cluster(
    executor: Executor,
    path: SweepPath | None,
    *,
    everything: bool,
    removal: Removal = Removal(),
) -> None:
    """End the agents in a cluster of ours, then delete it and all its resources.

    Refuses while agents of other sweeps than `path` run there, except with `everything`. Copies an
    embedded backend's data here first, unless `removal` gives it up; if that cannot be verified,
    the cluster stays. Raises DeployerError.
    """
    cluster = executor.cluster
    assert cluster, f"{executor.name} has no cluster of its own"
    try:
        _end_all_agents(executor, path, everything=everything)
    except CloudError as error:
        LOG.info(error.message)  # its leftovers are deleted anyway
    except KubeError as error:
        if not error.passing:
            raise
        LOG.info(f"its agents end with the cluster: {error.message}")
    if not removal.delete_data:
        removal = replace(removal, copied=_save_results(executor))
    cluster.remove(removal)


def _save_results(executor: Executor) -> bool:
    """Copy the results that would be deleted with the cluster; return True if there were any.

    Raises BackendError, so that the cluster stays.
    """
    if executor.backend is None:
        return False
    try:
        saved = executor.backend.save_results()
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
    """Record that the sweeps of a cluster's embedded backend are now in a local folder."""
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
    with report_slow_stop(executor, None):
        end_agents(executor, None)


def _take_down(session: Session) -> None:
    if session.executor.cluster:
        take_down_cluster(session.executor, session.path, everything=False)
        return
    end_agents(session.executor, session.sweep_path)
    LOG.info(f"{session.path}: deleted everything made for its agents; results stay")
