"""`deployer down`: end agents and delete what was made for a sweep; results stay."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Annotated

import typer

from deployer.cli.agents import end_sweep, naming_repeat
from deployer.cli.backend.backend_in_cluster import end_backend, list_own_claims
from deployer.cli.output.agent_views import describe_others, show_ended
from deployer.cli.output.busy import showing_busy
from deployer.cli.output.render import say
from deployer.cli.shell.command_group import make_app
from deployer.cli.shell.confirmation import YesOption, check_held, is_sure
from deployer.cli.shell.options import (
    OnOption,
    Output,
    OutputOption,
    SweepArgument,
    WandbOption,
    find_path,
    read_config_of,
)
from deployer.config.paths import backend_folder, list_copies
from deployer.config.project import EMBEDDED, Flags, Project
from deployer.errors import CloudError, ConfigError, DeployerError, Refusals, collect_refusals
from deployer.executors.registry import find_target, list_names
from deployer.executors.target import Removal, Target
from deployer.launch.agents.scaling import Ended, end_willing_agents
from deployer.launch.agents.stop_notice import tell_who_lasts
from deployer.launch.provision import find_disposable, take_down_cluster
from deployer.launch.remains import describe_bill, telling_remains
from deployer.outputs.kept_here import delete_here
from deployer.sweeps.records import SweepRecord, delete_records, load_records
from deployer.text import format_count
from deployer.wandb_api.model import SweepPath

app = make_app()


@app.command()
def down(
    sweep: SweepArgument = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All your agents, of every sweep, and your backends.")
    ] = False,
    delete_data: Annotated[
        bool,
        typer.Option(
            "--delete-data",
            help="With --all: the data of your backends and their runs' outputs too; asks first.",
        ),
    ] = False,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="The GKE cluster too, with its disks and pools.")
    ] = False,
    yes: YesOption = False,
    on: OnOption = None,
    wandb: WandbOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """End a sweep's agents and delete what was made for it; results stay.

    Runs under way are interrupted and assigned again to the next agent. With --all, your embedded
    backends end, too: where --on says, else wherever there is one. What belongs to other owners is
    named, and ends only if you name its sweep and are sure. What may not be looked at or deleted is
    named at the end, with exit code 1.
    """
    if sweep and all_:
        raise ConfigError("SWEEP", "is of no use with --all", "leave out one of them")
    if delete_data and not all_:
        raise ConfigError("--delete-data", "deletes every result", "say --all too if you mean it")
    config = read_config_of(sweep, Flags(wandb=wandb, on=on))
    if delete_data and not _is_sure_of_data(config, yes):
        say("nothing was deleted")
        return
    gone = set()
    if cluster:
        path, target = _find_if_any(sweep, config), find_disposable(config)
        held = [(one.words, one.foreign) for one in target.list_held(copied=not delete_data)]
        removal = Removal(check_held(held, yes, named=True), delete_data)
        telling = telling_remains(lambda failure: describe_bill(target, failure), say)
        with telling, showing_busy() as tell:
            take_down_cluster(target, path, tell, everything=all_, removal=removal)
        gone = {target.name}
    if all_:
        with collect_refusals() as refusals:
            _end_everywhere(config, output, refusals, gone=gone, delete_data=delete_data)
            if _means_here(config):
                _end_backend(delete_data)
    elif not cluster:
        end_sweep(config, sweep, yes, output)


def _is_sure_of_data(config: Project, yes: bool) -> bool:
    """List what `--delete-data` deletes, and return True if that is meant; raises ConfigError."""
    found = list(_list_data(config))
    for what in found:
        say(f"to be deleted: {what}")
    return not found or is_sure("delete all of this for good?", yes)


def _list_data(config: Project) -> Iterator[str]:
    """Yield the data of backends, here and in clusters, and how many sweeps are known of each."""
    records = load_records()
    if _means_here(config):
        for data in (backend_folder(), *list_copies()):
            if _holds_data(data):
                yield f"{data} ({format_count(sum(map(_is_kept_here, records)), 'sweep')})"
    for on in sorted(_choose_executors(config)):
        target = find_target(config, on)
        sweeps = [one.sweep_path for one in records if one.backend_on == on]
        try:
            claims = list_own_claims(target.open_kube()) if target.hosts_backend else ()
        except DeployerError as error:
            say(f"{on} is not searched for data: {error.message}")
            continue
        for claim in claims:
            yield f"{claim} on {on}{''.join(f', {path}' for path in sweeps)}"


def _find_if_any(sweep: str | None, config: Project) -> SweepPath | None:
    """Return the sweep that is meant; none was made from here if none is named or known."""
    try:
        return find_path(sweep, config)
    except ConfigError:
        if sweep:
            raise
        return None


@naming_repeat()
def _end_everywhere(
    config: Project, output: str, refusals: Refusals, *, gone: Set[str], delete_data: bool
) -> None:
    """End every sweep's agents in the place that was named, else wherever some were started.

    In a cluster the embedded backend goes, too. A place that refuses does not keep us from the
    others.
    """
    targets = [find_target(config, on) for on in sorted(_choose_executors(config) - gone)]
    ended = Ended()
    for target in targets:
        with refusals.noted():
            ended += _end_there(target, refusals, delete_data=delete_data)
    if ended or not refusals:
        places = ", ".join(target.place for target in targets)
        none = f"no agents of yours were found on {places}"
        show_ended("every sweep", ended, output, none if targets else "all agents went with it")


def _choose_executors(config: Project) -> set[str]:
    """Return the place that was named, else those where something was started from this folder."""
    if config.explicit_on:
        return {config.on}
    records = load_records(config.folder)
    used = {on for record in records for on in (record.on, record.backend_on)}
    return {config.on} | used & {*list_names()}


def _means_here(config: Project) -> bool:
    return find_target(config).runs_here or not config.explicit_on


def _end_there(target: Target, refusals: Refusals, *, delete_data: bool) -> Ended:
    try:
        executor = target.open()
    except CloudError as error:
        if error.reason != "NOT_FOUND":
            raise
        say(error.message)  # a cluster that is gone has no agents
        return Ended()
    if target.runs_here and target.project.owner:
        say("no owner counts here: all agents on this machine are yours, and end")
    ended = Ended()
    with refusals.noted(), tell_who_lasts(executor, None, say):
        ended = end_willing_agents(executor, None, refusals)
    with refusals.noted():
        for sentence in describe_others(executor.list_others(), time.time(), target.name):
            say(sentence)
    if target.hosts_backend:
        end_backend(target.open_kube(), target.name, refusals, delete_data=delete_data)
    return ended


def _end_backend(delete_data: bool) -> None:
    from deployer.backend.server.daemon import stop_backend

    for data in filter(_holds_data, (backend_folder(), *list_copies())):
        if stop_backend(data):
            say("embedded backend stopped")
        if delete_data:
            shutil.rmtree(data, ignore_errors=True)
            say(f"deleted {data}")
        else:
            say(f"the embedded backend's data stays in {data}")
    if delete_data:
        _delete_outputs()
        delete_records(_is_kept_here)


def _holds_data(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _is_kept_here(record: SweepRecord) -> bool:
    """Tell whether a sweep is known to this machine's embedded backend alone."""
    return record.server == EMBEDDED and not record.backend_on


def _delete_outputs() -> None:
    """Delete what runs of this machine's backend have written; other sweeps can still be read."""
    for record in filter(_is_kept_here, load_records()):
        sweep_id = record.sweep_path.rpartition("/")[2]
        if sweep_id and delete_here(sweep_id):
            say(f"deleted the outputs of {record.sweep_path}")
