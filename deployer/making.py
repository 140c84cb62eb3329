"""Make a sweep once, whatever fails in between, and remember it."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from deployer.config import Config
from deployer.errors import ConfigError, WandbError
from deployer.records import SweepRecord, delete_record, load_records, save_record
from deployer.server import Server
from deployer.sweep import Sweep, dump_config
from deployer.wandb_api import (
    SweepPath,
    create_sweep,
    get_sweep,
    list_sweeps,
    set_sweep_state,
)

# A server's clock and ours may differ by this much.
CLOCK_DIFFERENCE_SECONDS = 120.0


@dataclass(frozen=True)
class MadeSweep:
    """A sweep on its server; `created` is False when an unfinished one of ours goes on."""

    path: SweepPath
    created: bool
    warnings: tuple[str, ...] = ()


def make_sweep(
    server: Server,
    sweep: Sweep,
    config: Config,
    *,
    file: Path,
    continued: bool,
    seed: int | None,
    now: float,
) -> MadeSweep:
    """Return our own unfinished sweep of the same content if `continued`, else a new one.

    A sweep whose making was cut off is asked for again, never made twice.
    Raises ConfigError when `seed` is given and the server has no use for it.
    """
    if seed is not None and not server.extended:
        raise ConfigError(
            "--seed",
            f"{server.url} draws without a seed",
            "leave --seed out, or use --wandb embedded",
        )
    wanted = _build_record(server, sweep, config, file, seed, now)
    earlier = [r for r in load_records(config.folder) if _same(r, wanted)]
    if continued:
        for record in earlier:
            if record.sweep_path and (path := _continue(server, record)):
                return MadeSweep(path, created=False)
    cut_off = next((r for r in earlier if not r.sweep_path), None)
    entity = config.entity_for(sweep.entity, server.viewer.entity)
    project = config.project_for(sweep.project, sweep.program)
    text = build_text(sweep, seed)
    if cut_off and (path := _find_made(server, cut_off, entity, project, text)):
        save_record(replace(cut_off, sweep_path=str(path)))
        return MadeSweep(path, created=False)
    return _create(server, cut_off or wanted, entity, project, text)


def build_text(sweep: Sweep, seed: int | None) -> str:
    """Return the YAML that the server gets; the embedded backend keeps `seed` at the top level."""
    return sweep.text if seed is None else dump_config({**sweep.config, "seed": seed})


def _create(server: Server, record: SweepRecord, entity: str, project: str, text: str) -> MadeSweep:
    """Ask the server for the sweep, with a record of the question before it is asked."""
    save_record(record)
    try:
        path, warnings = create_sweep(server.client, text, entity, project, record.mutation_id)
    except WandbError as error:
        if 400 <= error.status < 500:
            delete_record(record)  # refused: certainly not made
        raise
    save_record(replace(record, sweep_path=str(path)))
    return MadeSweep(path, created=True, warnings=warnings)


def _continue(server: Server, record: SweepRecord) -> SweepPath | None:
    """Return the path of an unfinished sweep, resumed if it was paused."""
    path = SweepPath(*record.sweep_path.split("/"))
    try:
        info = get_sweep(server.client, path)
    except WandbError as error:
        if error.status != 404:
            raise
        delete_record(record)
        return None
    if info.ended:
        return None
    if info.state == "PAUSED":
        set_sweep_state(server.client, info, "RUNNING")
    return path


def _find_made(
    server: Server, record: SweepRecord, entity: str, project: str, text: str
) -> SweepPath | None:
    """Find the sweep that a cut-off attempt may have made; the embedded backend knows by itself."""
    if server.extended:
        return None
    wanted = yaml.safe_load(text)
    oldest = record.created_at - CLOCK_DIFFERENCE_SECONDS
    for info in list_sweeps(server.client, entity, project):
        if info.config == wanted and (info.created_at or 0.0) >= oldest:
            return info.path
    return None


def _build_record(
    server: Server, sweep: Sweep, config: Config, file: Path, seed: int | None, now: float
) -> SweepRecord:
    place = (config.entity, config.project, config.file_entity, config.file_project)
    content = repr((sweep.content_hash, seed, place))
    return SweepRecord(
        mutation_id=uuid.uuid4().hex,
        sweep_path="",
        server=server.name,
        base_url=server.url,
        folder=str(config.folder),
        file=str(file),
        content_hash=hashlib.sha256(content.encode()).hexdigest(),
        created_at=now,
    )


def _same(record: SweepRecord, wanted: SweepRecord) -> bool:
    return (record.content_hash, record.base_url) == (wanted.content_hash, wanted.base_url)
