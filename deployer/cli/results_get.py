"""`deployer results get`: copy runs' files and artifacts, from any storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from deployer.cli.output.live import follow_copy
from deployer.cli.output.render import Aside, Table, emit, say
from deployer.cli.ranking import check_ranked
from deployer.cli.results import GoalOption, MetricOption, choose_metric
from deployer.cli.shell.call import App, Call
from deployer.cli.shell.options import SweepArgument
from deployer.config import paths
from deployer.config.data import URL
from deployer.config.project import Project
from deployer.data.addresses import open_address
from deployer.data.folder_store import FolderStore
from deployer.data.store import Store
from deployer.errors import ConfigError, DeployerError, SweepFailed, WandbError
from deployer.launch.resolution import choose_sweep, open_sweep
from deployer.model import Run, SweepPath
from deployer.outputs.places import (
    Gathered,
    Places,
    choose_runs,
    find_loss,
    gather,
    is_run,
    name_folders,
    name_runs,
    open_places,
)
from deployer.sweeps.records import Records
from deployer.sweeps.recount import read_dropped
from deployer.sweeps.rerun import get_full_snapshot
from deployer.sweeps.results import ACTIVE_STATES
from deployer.text import format_bytes, format_count
from deployer.wandb_api.server import Server

app = App()


@app.command("get")
def get_(
    call: Call,
    sweep: SweepArgument = None,
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Run ids or titles, of the newest sweep if SWEEP is missing; "
            "default: all finished runs.",
        ),
    ] = None,
    best: Annotated[bool, typer.Option("--best", help="Copy only from the best run.")] = False,
    metric: MetricOption = None,
    goal: GoalOption = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="PLACE",
            help="A folder, s3://BUCKET/FOLDER or gs://BUCKET/FOLDER; default: results/SWEEP_ID. "
            "Each run gets its own folder in it.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace existing files that differ.")
    ] = False,
) -> None:
    """Copy the files that runs wrote to DEPLOYER_OUTPUT_DIR or logged as artifacts.

    Works wherever the files are kept, even after the agents have ended. Compares checksums, and
    continues an interrupted copy. Exits with 3 if there is nothing to copy, or if a finished run
    could not store its outputs.
    """
    if sweep and _is_run_of_newest(call, sweep):
        runs, sweep = [sweep, *(runs or ())], None
    _check_words(sweep, runs, best)
    if (metric or goal) and not best:
        raise ConfigError("--metric", "ranks runs, but --best is missing", "add --best")
    base = None if to is None else _trim(to)
    config, server, path = _connect(call, sweep)
    snapshot = get_full_snapshot(server, path)
    ranking = choose_metric(snapshot, metric, goal) if best else None
    if ranking:
        check_ranked(read_dropped(server, ranking))
    chosen = choose_runs(snapshot, ranking, runs or ())
    running = sum(run.state in ACTIVE_STATES for run in snapshot.runs)
    if best and running:
        say(f"{format_count(running, 'run')} still running: this is the best run so far")
    folders, names = name_folders(snapshot.runs), name_runs(snapshot.runs)
    base = base or f"{paths.RESULTS}/{path.sweep_id}"
    targets = {run.run_id: f"{base}/{folders[run.run_id]}" for run in chosen}
    with open_places(config, server, path) as places:
        copied = _copy_runs(config, places, names, targets, overwrite)
    _show(chosen, names, targets, copied, call.output)
    _judge(str(path), chosen, names, copied)


def _check_words(sweep: str | None, runs: Sequence[str] | None, best: bool) -> None:
    if sweep == "best":
        raise ConfigError("SWEEP", "'best' is not a sweep", "deployer results get --best")
    if best and runs:
        raise ConfigError("--best", "is a run, but you also name others", "remove one of the two")


def _connect(call: Call, sweep: str | None) -> tuple[Project, Server, SweepPath]:
    """Connect to the sweep that is meant; a word may have been meant as a run."""
    try:
        return call.connect(sweep, reading=True)
    except WandbError as error:
        if error.status != 404 or not sweep or "/" in sweep:
            raise
        said = f"'{sweep}' is neither a sweep nor a run of the newest sweep from this folder"
        raise ConfigError("SWEEP", said, "deployer sweep list, deployer results -o json") from error


def _trim(place: str) -> str:
    """Return a location without trailing slashes; raises ConfigError for an invalid one."""
    trimmed = place.rstrip("/")
    if "://" in trimmed and not URL.fullmatch(trimmed):  # not shown: it may contain a key
        hint = "a folder, s3://BUCKET/FOLDER or gs://BUCKET/FOLDER; keys are in the environment"
        raise ConfigError("--to", "is not the address of an object store", hint)
    if not place.strip() or trimmed.endswith(":"):
        hint = "a folder, s3://BUCKET/FOLDER or gs://BUCKET/FOLDER"
        raise ConfigError("--to", f"'{place}' is not a location", hint)
    return trimmed


def _is_run_of_newest(call: Call, word: str) -> bool:
    """Return whether the first word names a run of the sweep that is meant without one.

    A sweep of ours that is called so counts more.
    """
    config = call.read()
    records = Records.load()
    ours = any(record.sweep_path.endswith(f"/{word}") for record in records)
    if "/" in word or ours or not records.made_in(config.folder):
        return False
    try:
        newest = choose_sweep(None, config)
    except ConfigError:  # no sweep was made on the named server
        return False
    try:
        server, path = open_sweep(newest, reading=True)
        return is_run(get_full_snapshot(server, path), word)
    except DeployerError as error:
        say(f"could not check whether {word} is a run of the newest sweep: {error.message}")
        return False


def _copy_runs(
    config: Project,
    places: Places,
    names: Mapping[str, str],
    targets: Mapping[str, str],
    overwrite: bool,
) -> dict[str, Gathered]:
    copied = {}
    for run_id, place in targets.items():
        with (
            places.open_run(run_id) as source,
            _open_target(config, place) as target,
            follow_copy(names[run_id]) as progress,
        ):
            copied[run_id] = gather(source, target, progress, overwrite)
    return copied


def _open_target(config: Project, place: str) -> Store:
    if "://" not in place:
        return FolderStore(config.folder / Path(place).expanduser())
    endpoint = config.environment.get("AWS_ENDPOINT_URL")
    return open_address(place, endpoint if place.startswith("s3://") else None)


def _show(
    runs: Sequence[Run],
    names: Mapping[str, str],
    targets: Mapping[str, str],
    copied: Mapping[str, Gathered],
    output: str,
) -> None:
    plain = [_to_plain(run, targets[run.run_id], copied[run.run_id]) for run in runs]
    rows = [
        (names[key], one.files, format_bytes(one.size_bytes), one.equal_files, targets[key])
        for key, one in copied.items()
        if one.files
    ]
    table = Table(("RUN", "FILES", "SIZE", "THERE ALREADY", "FOLDER"), rows)
    empty = [run for run in runs if not copied[run.run_id].files and not find_loss(run)]
    notes = (Aside(f"run {names[run.run_id]} has no outputs") for run in empty)
    emit({"runs": plain}, output, table, *notes)


def _to_plain(run: Run, folder: str, copied: Gathered) -> dict[str, Any]:
    files = [
        {"path": one.path, "size_bytes": one.size_bytes, "sha256": one.sha256}
        for one in copied.entries
    ]
    return {
        "run_id": run.run_id,
        "title": run.title,
        "state": run.state,
        "folder": folder if files else None,
        "files": files,
        "not_kept": find_loss(run) or None,
    }


def _judge(
    path: str,
    runs: Sequence[Run],
    names: Mapping[str, str],
    copied: Mapping[str, Gathered],
) -> None:
    """Name runs whose outputs are lost; fail if nothing was copied."""
    lost = [run for run in runs if find_loss(run)]
    if lost:
        listed = ", ".join(names[run.run_id] for run in lost)
        raise SweepFailed(
            f"{path}: the outputs of {listed} could not be kept: {find_loss(lost[0])}",
            f"deployer agents logs --run {lost[0].run_id} shows the reason",
        )
    if not any(one.files for one in copied.values()):
        raise SweepFailed(
            f"{path}: found no outputs of {format_count(len(runs), 'run')}",
            "to keep outputs, write to DEPLOYER_OUTPUT_DIR, call wandb.save, or log an artifact",
        )
