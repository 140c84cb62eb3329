"""Errors and warnings before anything is made or paid for."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from deployer.agent.prologue.deployer_folder import look_at
from deployer.agent.settings import TOKEN_FILE_VARIABLE
from deployer.config import paths
from deployer.config.project import Code, Project
from deployer.errors import (
    ConfigError,
    DeployerError,
    Finding,
    SweepEnded,
    WandbError,
    right,
    warning,
    wrong,
)
from deployer.executors.base import Check, Description, Executor, Limits, run_checks
from deployer.images.code import SHORT
from deployer.images.code_archive import list_files, list_left_out
from deployer.launch.planning import build_draft, choose_bound
from deployer.launch.request import SweepRequest
from deployer.launch.scaling import count_agents
from deployer.model import Plan, Sweep, SweepPath
from deployer.sweeps.creation import (
    Draws,
    check_draws,
    choose_names,
    find_newest,
    find_rest,
    goes_on,
)
from deployer.sweeps.keys import Findings, problem
from deployer.sweeps.program import check_program, list_scripts
from deployer.sweeps.rerun import get_full_snapshot
from deployer.sweeps.results import Results, build_results, describe_attempt, find_last_words
from deployer.sweeps.rules import has_local_scheduler
from deployer.sweeps.run_rows import describe_configuration
from deployer.sweeps.set_files import check_sets_file
from deployer.text import format_bytes, format_count, format_seconds
from deployer.wandb_api.client import is_loopback
from deployer.wandb_api.operations import list_projects
from deployer.wandb_api.server import Inside, Server
from deployer.watch.run_logs import get_run_tail

MANY_AGENTS = 20
LEAST_FREE_BYTES = 1 << 30  # a few checkpoints, or an image that a builder unpacks
FULL_BYTES = 16 << 20  # a sweep's records, and the logs of its first minutes
PORT = re.compile(r"--master[-_]port[= ][1-9]\d*|--rdzv[-_]endpoint[= ]\S*:[1-9]\d*")
TAIL_LINES = 10  # the last non-empty one is shown
SHOWN = 8


def check(executor: Executor, request: SweepRequest, server: Server | None) -> None:
    """Reject what cannot work, without changing anything; `server` is None if not made yet.

    Raises ConfigError, DeployerError.
    """
    check_disk(paths.home())
    run_checks(list_checks(executor, request, server))


def check_disk(folder: Path) -> None:
    """Raise DeployerError if the disk is full."""
    found = judge_disk(folder, "the state folder", shutil.disk_usage(folder).free)
    if found.is_error:
        raise DeployerError(found.text, found.fix)


def judge_disk(folder: Path, what: str, free_bytes: int) -> Finding:
    """Check whether a folder has enough space; pure."""
    said = f"{format_bytes(free_bytes)} free for {what}"
    make_room = f"du -xh -d 2 {folder} | sort -h | tail"
    if free_bytes < FULL_BYTES:
        return wrong("disk", str(folder), f"the disk is full: {said}", make_room)
    if free_bytes < LEAST_FREE_BYTES:
        return warning("disk", str(folder), f"{said}, less than 1 GiB", make_room)
    return right("disk", str(folder), said)


def list_checks(
    executor: Executor, request: SweepRequest, server: Server | None
) -> Sequence[Check]:
    """Return the checks that `up` runs before it makes anything, in its order."""
    config, file, project = request.started, str(request.file), executor.project
    return (
        Check(
            "program",
            file,
            lambda: check_program_here(executor, config, project.code, file),
            "its program exists",
        ),
        Check(
            "names", file, lambda: _check_names(executor, request, server), "its names are valid"
        ),
        *list_server_checks(executor, server, request),
        Check(
            "runs",
            file,
            lambda: _check_one_run(executor, request),
            "its runs can be counted",
        ),
        *list_place_checks(executor, build_limits(project, request), server),
    )


def list_server_checks(
    executor: Executor, server: Server | None, request: SweepRequest | None = None
) -> Sequence[Check]:
    """Return the checks of the server: whether agents reach it, and its search methods."""
    if server is None:
        return ()
    draws = request.draws if request else Draws()
    return (
        Check(
            "reach",
            server.url,
            lambda: check_reach(executor, server.url, server.inside),
            "agents can reach its address",
        ),
        Check(
            "draws",
            server.url,
            lambda: check_draws(server, draws),
            "it supports the requested draws",
        ),
    )


def list_place_checks(
    executor: Executor, limits: Limits, server: Server | None = None
) -> Sequence[Check]:
    """Return the checks of the agents' location: its settings, and the local data sets.

    Contacts nothing.
    """
    url = server.url if server else executor.embedded_url
    draft = build_draft(executor.project, url, server.extended if server else True)
    name = executor.name
    checks = [
        Check(
            "settings", name, lambda: executor.check(draft, limits), "the settings are valid there"
        )
    ]
    if executor.data:
        checks.append(Check("data", name, executor.data.check, "the data sets exist"))
    return checks


def _check_one_run(executor: Executor, request: SweepRequest) -> None:
    """Reject one agent per run if the sweep is endless, or if pods hold several agents."""
    if not request.one_run:
        return
    count_agents(request.sweep.expected, choose_bound(executor.project, executor, True))
    packed = executor.project.kubernetes.agents_per_pod
    if packed > 1 and not executor.runs_here:
        said = f"a pod of {packed} agents ends with the last of their runs"
        hint = "remove --one-run-per-job or agents_per_pod"
        raise ConfigError("deployer.yaml: kubernetes.agents_per_pod", said, hint)


def _check_names(executor: Executor, request: SweepRequest, server: Server | None) -> None:
    """Reject invalid names, and an entity that W&B does not show to this account."""
    viewer = server.viewer.entity if server else ""
    entity, _ = choose_names(executor.project, request.sweep, viewer)
    if server is None or server.embedded or entity == viewer:
        return
    try:
        list_projects(server.client, entity)
    except WandbError as error:
        if error.passing:
            raise
        raise ConfigError("--entity", error.message, f"--entity {viewer}") from error


def check_reach(executor: Executor, base_url: str, inside: Inside | None = None) -> None:
    """Reject agents that cannot reach their server; raises ConfigError.

    These are agents in a cluster with a server on a loopback address, and local agents with one
    `inside`.
    """
    if inside and inside.on != executor.name:
        said = f"agents on {executor.name} cannot reach {base_url}, the embedded backend"
        start = f"start them there: --on {inside.place}"
        raise ConfigError("--on", f"{said} of --on {inside.on}", start)
    project = executor.project
    by_identity = project.kubernetes.identity_audience is not None
    if not (executor.runs_here or project.embedded or project.key or by_identity):
        said = "is a local file, and pods also need a login"
        hint = "kubernetes: {identity_audience: AUDIENCE} in deployer.yaml, or WANDB_API_KEY"
        raise ConfigError(TOKEN_FILE_VARIABLE, said, hint)
    if executor.runs_here or not is_loopback(base_url):
        return
    raise ConfigError(
        "--on",
        f"pods in a cluster cannot reach {base_url}, an address of this machine",
        "deployer backend down, then deployer backend serve --host ADDRESS, one that pods reach",
    )


def build_limits(project: Project, request: SweepRequest) -> Limits:
    """Return the limits of a sweep; with one agent per run and no bound, the largest possible."""
    agents = None if request.one_run and project.given_replicas is None else project.replicas
    return Limits(agents, request.max_seconds, request.capacity_seconds)


def check_program_here(
    executor: Executor, config: Mapping[str, Any], code: Code, place: str
) -> None:
    """Reject a program, or a file of sets, that is missing or differs in the agents' code.

    Also reject sweeps that none of our servers supports. Raises ConfigError.
    """
    for one in find_unserved(executor.project, config):
        raise ConfigError(f"{place}: {one.path[0]}", one.message, one.fix)
    if executor.has_folder:
        archived = not executor.runs_here
        check_program(config, code.folder, place, code.commit[:SHORT], archived)
        if not executor.runs_here and not code.commit:
            # Reject a script that git does not track: pods would not get it. Raises ConfigError.
            for key, name in list_scripts(config):
                if name in list_left_out(code.folder):
                    said = f"git does not track {name}, and pods get only tracked files"
                    raise ConfigError(f"{place}: {key}", said, f"git add {name}")
        check_sets_file(config, code.folder, place)


def find_unserved(project: Project, config: Mapping[str, Any]) -> Findings:
    """Yield an error for what the embedded backend does not support: a local controller."""
    if not project.embedded:
        return
    named = not has_local_scheduler(config) and config.get("controller")
    if isinstance(named, Mapping) and named.get("type") == "local":
        from deployer.backend.scheduling.sweep_control import LOCAL_CONTROLLER  # imports its engine

        said, _, hint = LOCAL_CONTROLLER.partition(": ")
        yield problem(("controller",), said, hint)


def warn_about_many(server: Server, replicas: int) -> str:
    """Warn that more agents may not help on a server with W&B's limits; empty if fine."""
    if server.extended or replicas <= MANY_AGENTS:
        return ""
    return (
        f"{replicas} agents send {12 * replicas} heartbeats a minute; W&B's servers refuse "
        f"more than about 200 requests a minute, so with over {MANY_AGENTS} agents runs start late"
    )


def warn_about_port(executor: Executor, config: Mapping[str, Any], agents: int) -> str:
    """Name a port that several local agents would share for one run's processes; else empty."""
    named = PORT.search(" ".join(str(word) for word in config.get("command") or ()))
    if not named or agents < 2 or not executor.runs_here:
        return ""
    said = f"{named[0]}: {agents} agents on this machine share one port, so the second run fails"
    return f"{said}; torchrun --standalone uses a free port"


def warn_about_deadline(executor: Executor) -> str:
    """Warn that the deadline of queued Jobs approaches while they wait; else empty.

    A queue suspends them until they may run, and only then their time starts.
    """
    seconds = executor.queued_seconds
    if seconds is None:
        return ""
    return (
        f"kubernetes.max_time: each Job ends after {format_seconds(seconds)}, including "
        "its wait for room; --replicas N starts the next ones only when there is room"
    )


def check_not_ended(project: Project, server: Server, request: SweepRequest) -> None:
    """Raise if the file's sweep has ended, with the ways to continue.

    Raises SweepEnded; ConfigError with the first error if failures stopped it.
    """
    if not request.continued:
        return
    asked = (server, request.sweep, project, request.file, request.draws)
    found = find_newest(*asked)
    if found is None and (rest := find_rest(*asked)):
        raise _build_rest_error(server, rest, str(request.file))
    if found is None or not found[1].ended:
        return
    path = found[1].path
    snapshot = get_full_snapshot(server, path)
    results = build_results(snapshot.sweep, snapshot.runs)
    coverage, file = results.coverage, str(request.file)
    another = f"or create another sweep: deployer up {file} --new"
    if results.stop_reason:
        first = _describe_first(server, path, results)
        said = f"its sweep {path} was stopped, since {results.stop_reason}{first}"
        ways = f"fix the script, then run them again: deployer heal {path}; {another}"
        raise ConfigError(file, said, ways)
    if goes_on(request.sweep, found[1]):
        return
    whole = coverage.expected is None or coverage.complete
    first = (
        f"deployer results {path}"
        if whole
        else f"run the missing configurations: deployer heal {path}"
    )
    cap = found[1].config.get("run_cap")
    if cap and found[1].state == "FINISHED" and request.sweep.method != "grid":
        another = f"add runs to it: deployer up {file} --run-cap {2 * cap}; {another}"
    said = f"its sweep {path} is {found[1].state}: {coverage.sentence()}"
    if cap and request.sweep.run_cap and request.sweep.run_cap < cap:
        said += f", and its run_cap is {cap}"
    raise SweepEnded(file, said, f"{first}; {another}")


def _build_rest_error(server: Server, rest: Sweep, file: str) -> SweepEnded:
    snapshot = get_full_snapshot(server, rest.path)
    coverage = build_results(snapshot.sweep, snapshot.runs).coverage
    said = f"{rest.path}, which --reuse made from it, is {rest.state}: {coverage.sentence()}"
    look = "results" if rest.ended else "watch"
    ways = (
        f"deployer {look} {rest.path}; or run everything in another sweep: deployer up {file} --new"
    )
    return SweepEnded(file, said, ways)


def _describe_first(server: Server, path: SweepPath, results: Results) -> str:
    if not results.failures:
        return ""
    first = min(results.failures, key=lambda row: row.started_at or 0.0)
    tail = get_run_tail(server, None, path, first, TAIL_LINES)
    last = find_last_words(tail)
    attempt = first.attempts[-1] if first.attempts else None
    how = describe_attempt(attempt.cause, attempt.exit_code) if attempt and attempt.cause else ""
    said = ": ".join(filter(None, (how, last)))
    return f"; the first, {first.run_id} ({describe_configuration(first)}): {said}"


def describe_runs(executor: Executor, plan: Plan) -> Description:
    """Return the facts about a plan's runs; raises ConfigError for errors."""
    found = executor.describe_runs(plan)
    return replace(found, lines=(*found.lines, *_describe_isolation(executor)))


def _describe_isolation(executor: Executor) -> Iterator[str]:
    project = executor.project
    if not project.settings.isolate:
        return
    if not executor.has_folder:
        yield "isolate: each run gets a copy of the image's working folder"
        return
    folder = project.code.folder
    copied, linked = look_at(str(folder)) if executor.runs_here else (list_files(folder), [])
    sizes = [path.lstat().st_size for one in copied if not (path := folder / one).is_dir()]
    size = format_bytes(sum(sizes))
    yield f"isolate: each run gets a copy of {format_count(len(sizes), 'file')}, {size}"
    if linked:
        more = f" and {len(linked) - SHOWN} more" if len(linked) > SHOWN else ""
        yield f"isolate: linked, so shared by all runs: {', '.join(linked[:SHOWN])}{more}"
