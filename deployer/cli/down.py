"""`deployer down`: end agents and delete what was made for a sweep; results stay."""

from __future__ import annotations

import shutil
from collections.abc import Set
from typing import Annotated

import typer

from deployer.cli.backend.backend_in_cluster import end_backend
from deployer.cli.output.agent_views import show_ended
from deployer.cli.output.busy import showing_busy
from deployer.cli.output.render import say
from deployer.cli.shell.command_group import make_app
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
from deployer.errors import CloudError, ConfigError, Refusals, collect_refusals
from deployer.executors.registry import find_target, list_names, open_executor
from deployer.executors.target import Target
from deployer.launch.agents.scaling import end_willing_agents
from deployer.launch.agents.stop_notice import tell_who_lasts
from deployer.launch.provision import find_disposable, take_down_cluster
from deployer.outputs.kept_here import delete_here
from deployer.sweeps.records import SweepRecord, delete_records, load_records
from deployer.wandb_api.model import SweepPath

app = make_app()


@app.command()
def down(
    sweep: SweepArgument = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Every sweep's agents, and our backend.")
    ] = False,
    delete_data: Annotated[
        bool,
        typer.Option(
            "--delete-data", help="With --all: the backend's data and its runs' outputs too."
        ),
    ] = False,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="The GKE cluster too, with its disks and pools.")
    ] = False,
    on: OnOption = None,
    wandb: WandbOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """End a sweep's agents and delete what was made for it; results stay.

    Runs under way are interrupted and handed out again to the next agent. With --all, embedded
    backends end, too: where --on says, else wherever there is one. What may not be looked at or
    deleted is named at the end, with exit code 1.
    """
    if delete_data and not all_:
        raise ConfigError("--delete-data", "deletes every result", "say --all too if you mean it")
    config = read_config_of(sweep, Flags(wandb=wandb, on=on))
    gone = set()
    if cluster:
        path, target = _find_if_any(sweep, config), find_disposable(config)
        with showing_busy() as tell:
            take_down_cluster(target, path, tell, everything=all_, delete_data=delete_data)
        gone = {target.name}
    if all_:
        with collect_refusals() as refusals:
            _end_everywhere(config, output, refusals, gone=gone, delete_data=delete_data)
            if find_target(config).runs_here or not config.explicit_on:
                _end_backend(delete_data)
    elif not cluster:
        _end_sweep(config, str(find_path(sweep, config)), output)


def _end_sweep(config: Project, path: str, output: str) -> None:
    executor = open_executor(config)
    with collect_refusals() as refusals:
        with showing_busy() as tell, tell_who_lasts(executor, path, tell):
            ended = end_willing_agents(executor, path, refusals)
        if ended or not refusals:
            show_ended(path, ended, output)


def _find_if_any(sweep: str | None, config: Project) -> SweepPath | None:
    """Return the sweep that is meant; none was made from here if none is named or known."""
    try:
        return find_path(sweep, config)
    except ConfigError:
        if sweep:
            raise
        return None


def _end_everywhere(
    config: Project, output: str, refusals: Refusals, *, gone: Set[str], delete_data: bool
) -> None:
    """End every sweep's agents in the place that was named, else wherever some were started.

    In a cluster the embedded backend goes, too. A place that refuses does not keep us from the
    others.
    """
    executors = {config.on}
    if not config.explicit_on:
        records = load_records(config.folder)
        used = {on for record in records for on in (record.on, record.backend_on)}
        executors |= used & {*list_names()}
    ended: list[str] = []
    for on in sorted(executors - gone):
        with refusals.noted():
            ended += _end_there(find_target(config, on), refusals, delete_data=delete_data)
    if ended or not refusals:
        show_ended("every sweep", ended, output)


def _end_there(target: Target, refusals: Refusals, *, delete_data: bool) -> tuple[str, ...]:
    try:
        executor = target.open()
    except CloudError as error:
        say(error.message)  # a cluster that is gone has no agents
        return ()
    ended: tuple[str, ...] = ()
    with refusals.noted(), tell_who_lasts(executor, None, say):
        ended = end_willing_agents(executor, None, refusals)
    if target.hosts_backend:
        end_backend(target.open_kube(), target.name, refusals, delete_data=delete_data)
    return ended


def _end_backend(delete_data: bool) -> None:
    from deployer.backend.server.daemon import stop_backend

    for data in (backend_folder(), *list_copies()):
        if stop_backend(data):
            say("embedded backend stopped")
        if not delete_data:
            if data.exists():
                say(f"the embedded backend's data stays in {data}")
            continue
        shutil.rmtree(data, ignore_errors=True)
        say(f"deleted {data}")
    if delete_data:
        _delete_outputs()
        delete_records(_is_kept_here)


def _is_kept_here(record: SweepRecord) -> bool:
    """Tell whether a sweep is known to this machine's embedded backend alone."""
    return record.server == EMBEDDED and not record.backend_on


def _delete_outputs() -> None:
    """Delete what runs of this machine's backend have written; other sweeps can still be read."""
    for record in filter(_is_kept_here, load_records()):
        sweep_id = record.sweep_path.rpartition("/")[2]
        if sweep_id and delete_here(sweep_id):
            say(f"deleted the outputs of {record.sweep_path}")
