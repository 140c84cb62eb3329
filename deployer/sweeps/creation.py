"""Create a sweep exactly once, despite any failure in between, and record it."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

from deployer.agent.addresses import is_same
from deployer.config.project import Project
from deployer.errors import ConfigError, WandbError
from deployer.model import Sweep, SweepPath
from deployer.sweeps.records import Records, SweepRecord
from deployer.sweeps.sweep_file import SweepFile, dump_config, load_sweep
from deployer.text import find_forbidden
from deployer.wandb_api.operations import (
    create_sweep,
    get_sweep,
    list_sweeps,
    reopen_sweep,
    set_sweep_state,
)
from deployer.wandb_api.server import Server

LOG = logging.getLogger(__name__)
# The server's clock and ours may differ by this much.
CLOCK_DIFFERENCE_SECONDS = 120.0
DEFAULT_RETRIES = 1  # the embedded backend's default


@dataclass(frozen=True)
class Draws:
    """Settings of a sweep that only the embedded backend has; None means its default.

    `seed` makes its draws repeatable; `retries` are further attempts for a failed run.
    """

    seed: int | None = None
    retries: int | None = None

    @property
    def keys(self) -> dict[str, int]:
        """The top-level keys of these settings, without defaults."""
        retries = None if self.retries == DEFAULT_RETRIES else self.retries
        named = {"seed": self.seed, "retries": retries}
        return {key: value for key, value in named.items() if value is not None}


@dataclass(frozen=True)
class MadeSweep:
    """A sweep on its server; `created` is False if an unfinished sweep of ours continues."""

    path: SweepPath
    created: bool
    warnings: tuple[str, ...] = ()


def make_sweep(
    server: Server,
    sweep: SweepFile,
    project: Project,
    *,
    file: Path,
    continued: bool,
    draws: Draws,
    now: float,
    whole: SweepFile | None = None,
) -> MadeSweep:
    """Continue our sweep of the same content if `continued` and it can, else make a new one.

    An interrupted creation is retried, never duplicated. `whole` is the file's sweep if `sweep`
    contains only what another sweep has not finished. Raises ConfigError if the server does not
    support `draws`.
    """
    check_draws(server, draws)
    server.note_user()
    wanted = _build_record(server, sweep, project, file, draws, now)
    if whole:
        wanted = replace(wanted, whole_hash=_hash_content(whole, project, draws))
    records = Records.load()
    earlier = _list_earlier(records, wanted)
    found = _find_newest(server, records, earlier) if continued else None
    if found and goes_on(sweep, found[1]):
        record, info = found
        records.change(record.is_same, continued_at=now)
        said = (*_go_on(server, sweep, info), *_say_retries(draws, info))
        return MadeSweep(info.path, created=False, warnings=said)
    cut_off = next((r for r in earlier if not r.sweep_path), None)
    entity, name = choose_names(project, sweep, server.viewer.entity)
    text = build_text(sweep, draws)
    if cut_off and (path := _find_made(server, cut_off, entity, name, text)):
        records.change(cut_off.is_same, sweep_path=str(path))
        return MadeSweep(path, created=False)
    made = _create(server, records, cut_off or wanted, entity, name, text)
    if made.path.entity != entity:
        LOG.info(f"entity {entity} is not on this server: the sweep is {made.path.entity}'s")
    said = _list_unsaid(sweep, made.warnings)
    if cut_off:  # its run_cap may differ
        said += _go_on(server, sweep, get_sweep(server.client, made.path))
    return replace(made, warnings=said)


def goes_on(sweep: SweepFile, made: Sweep) -> bool:
    """Return True if `up` continues a sweep: an open one, or a finished one with a larger cap."""
    more = _read_cap(sweep.config) > _read_cap(made.config)
    return not made.ended or (made.state == "FINISHED" and more)


def _read_cap(config: Mapping[str, Any]) -> float:
    return float(config.get("run_cap") or math.inf)


def _go_on(server: Server, sweep: SweepFile, made: Sweep) -> tuple[str, ...]:
    """Resume a paused sweep and raise its run_cap to the file's; return the actions taken."""
    wanted, cap = _read_cap(sweep.config), _read_cap(made.config)
    if wanted > cap:
        kept = {key: value for key, value in made.config.items() if key != "run_cap"}
        config = {**kept, "run_cap": sweep.run_cap} if sweep.run_cap else kept
        reopen_sweep(server.client, made, dump_config(config))
        return (f"{made.path} continues: run_cap was {cap:.0f}, now {sweep.run_cap or 'none'}",)
    said = []
    if wanted < cap:
        kept_cap = made.config.get("run_cap", "none")
        said.append(
            f"run_cap of {made.path} stays {kept_cap}; --new creates a sweep with {wanted:.0f}"
        )
    if made.state == "PAUSED":
        set_sweep_state(server.client, made, "RUNNING")
        said.append(f"{made.path} was PAUSED and is resumed")
    return tuple(said)


def _say_retries(draws: Draws, made: Sweep) -> Iterator[str]:
    """Yield a notice that a continued sweep keeps its retries, which do not define a sweep."""
    kept = made.config.get("retries", DEFAULT_RETRIES)
    if draws.retries not in (None, kept):
        more = f"deployer heal {made.path} --retries {draws.retries}"
        yield f"{made.path} keeps --retries {kept}; to run failed configurations again: {more}"


def find_newest(
    server: Server, sweep: SweepFile, project: Project, file: Path, draws: Draws
) -> tuple[SweepRecord, Sweep] | None:
    wanted = _build_record(server, sweep, project, file, draws, 0.0)
    records = Records.load()
    return _find_newest(server, records, _list_earlier(records, wanted))


def find_rest(
    server: Server, sweep: SweepFile, project: Project, file: Path, draws: Draws
) -> Sweep | None:
    wanted = _build_record(server, sweep, project, file, draws, 0.0)
    records = Records.load()
    rests = [replace(one, content_hash=one.whole_hash) for one in records if one.whole_hash]
    found = _find_newest(server, records, _list_earlier(Records(rests), wanted))
    return found[1] if found else None


def is_edited(sweep: Sweep, file: Path) -> bool:
    """Return True if a sweep's file has changed; False if it cannot be read."""
    try:
        config = load_sweep(file).config
    except ConfigError:
        return False
    by_flags = ("run_cap", "seed", "retries")
    then, now = ({k: v for k, v in c.items() if k not in by_flags} for c in (sweep.config, config))
    return then != now


def build_text(sweep: SweepFile, draws: Draws) -> str:
    """Return the YAML for the server; settings beyond W&B's are at the top level."""
    return dump_config({**sweep.config, **draws.keys}) if draws.keys else sweep.text


def choose_names(project: Project, sweep: SweepFile, viewer: str) -> tuple[str, str]:
    """Return entity and project of a new sweep; the default entity is `viewer`.

    Raises ConfigError for names that would change the path of a URL.
    """
    entity = project.entity_for(sweep.entity, viewer)
    name = project.project_for(sweep.project, sweep.program)
    for flag, variable, one in (
        ("--entity", "WANDB_ENTITY", entity),
        ("--project", "WANDB_PROJECT", name),
    ):
        if letter := find_forbidden(one):
            place = variable if project.environment.get(variable) == one else flag
            said = f"'{one}' contains {letter}, which names cannot have"
            raise ConfigError(place, said, f"write it without {letter}")
    return entity, name


def _list_unsaid(sweep: SweepFile, warnings: tuple[str, ...]) -> tuple[str, ...]:
    def is_said(warning: str) -> bool:
        place = warning.partition(": ")[0].replace(".[", "[")
        return any(f": {place}: " in ours for ours in sweep.warnings)

    return tuple(warning for warning in warnings if not is_said(warning))


def check_draws(server: Server, draws: Draws) -> None:
    """Reject options that a server without our extensions would ignore; raises ConfigError."""
    if server.extended:
        return
    refused = (
        (draws.seed is not None, "--seed", "draws without a seed"),
        (bool(draws.retries), "--retries", "does not retry failed runs"),
    )
    for given, flag, reason in refused:
        if given:
            hint = f"remove {flag}, or use --wandb embedded"
            raise ConfigError(flag, f"{server.url} {reason}", hint)


def _create(
    server: Server, records: Records, record: SweepRecord, entity: str, project: str, text: str
) -> MadeSweep:
    """Create the sweep; write its record before sending the request."""
    records.add(record)
    try:
        path, warnings = create_sweep(server.client, text, entity, project, record.mutation_id)
    except WandbError as error:
        if 400 <= error.status < 500:
            records.forget(record.is_same)  # refused: certainly not made
        if error.status == HTTPStatus.FORBIDDEN and entity != server.viewer.entity:
            raise WandbError(error.message, f"--entity {server.viewer.entity}", 403) from error
        raise
    records.change(record.is_same, sweep_path=str(path))
    return MadeSweep(path, created=True, warnings=warnings)


def _list_earlier(records: Records, wanted: SweepRecord) -> list[SweepRecord]:
    return [r for r in records.made_in(Path(wanted.folder)) if _same(r, wanted)]


def _find_newest(
    server: Server, records: Records, earlier: Sequence[SweepRecord]
) -> tuple[SweepRecord, Sweep] | None:
    """Return the newest open sweep, else the newest ended one; forget deleted sweeps."""
    ended = None
    for record in earlier:
        if record.sweep_path and (info := _get_known(server, records, record)):
            if not info.ended:
                return record, info
            ended = ended or (record, info)
    return ended


def _get_known(server: Server, records: Records, record: SweepRecord) -> Sweep | None:
    try:
        return get_sweep(server.client, SweepPath(*record.sweep_path.split("/")))
    except WandbError as error:
        if error.status != 404:
            raise
        records.forget(record.is_same)
        return None


def _find_made(
    server: Server, record: SweepRecord, entity: str, project: str, text: str
) -> SweepPath | None:
    if server.extended:
        return None
    wanted = yaml.safe_load(text)
    oldest = record.created_at - CLOCK_DIFFERENCE_SECONDS
    for info in list_sweeps(server.client, entity, project):
        if info.config == wanted and (info.created_at or 0.0) >= oldest:
            return info.path
    return None


def _build_record(
    server: Server, sweep: SweepFile, project: Project, file: Path, draws: Draws, now: float
) -> SweepRecord:
    address = server.inside.address if server.inside else {}
    return SweepRecord(
        mutation_id=uuid.uuid4().hex,
        sweep_path="",
        server=server.name,
        base_url=server.url,
        folder=str(project.folder),
        file=str(file),
        content_hash=_hash_content(sweep, project, draws),
        created_at=now,
        backend_on=server.inside.on if server.inside else "",
        cluster=server.inside.cluster if server.inside else "",
        commit=project.code.commit,
        context=address.get("context", ""),
        namespace=address.get("namespace", ""),
        cloud=address.get("cloud", ""),
        pinned=bool(address and project.named_cluster),
    )


def _hash_content(sweep: SweepFile, project: Project, draws: Draws) -> str:
    """Return the same hash for the same sweep; run_cap does not count: a larger one continues."""
    place = (project.entity, project.project, project.file_entity, project.file_project)
    more = (project.code.commit,) if project.code.commit else ()
    kept = {key: value for key, value in sweep.config.items() if key != "run_cap"}
    content = repr((json.dumps(kept, sort_keys=True), draws.seed, place, *more))
    return hashlib.sha256(content.encode()).hexdigest()


def _same(record: SweepRecord, wanted: SweepRecord) -> bool:
    if record.data:  # its server is gone; a new one at the same address does not know the sweep
        return False
    there, meant = ((one.content_hash, one.cluster) for one in (record, wanted))
    return there == meant and is_same(record.base_url, wanted.base_url)
