"""`deployer down`: end agents and delete the resources of a sweep; results stay."""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from deployer.cli.agents import end_sweep, naming_repeat
from deployer.cli.backend_place import end_backend, list_own_claims
from deployer.cli.output.live import showing_busy
from deployer.cli.output.render import say
from deployer.cli.output.status import show_ended
from deployer.cli.shell.call import App, Call, check_held
from deployer.cli.shell.options import SweepArgument
from deployer.config.paths import backend_folder, list_copies
from deployer.config.project import EMBEDDED, Project
from deployer.errors import (
    BackendError,
    CloudError,
    ConfigError,
    DeployerError,
    Refusals,
    collect_refusals,
)
from deployer.executors.base import Executor, Removal
from deployer.executors.registry import find_executor, list_names
from deployer.launch.provision import (
    describe_bill,
    describe_owners,
    reporting_remains,
    take_down_cluster,
)
from deployer.launch.resolution import follow_agents_of
from deployer.launch.scaling import Ended, end_willing_agents, report_slow_stop
from deployer.model import SweepPath
from deployer.outputs.stores import delete_here, measure_here
from deployer.sweeps.records import Records, SweepRecord
from deployer.text import format_bytes, format_count

app = App()


@app.command()
def down(
    call: Call,
    sweep: SweepArgument = None,
    all_: Annotated[
        bool, typer.Option("--all", help="End your agents of all sweeps, and stop your backends.")
    ] = False,
    delete_data: Annotated[
        bool,
        typer.Option(
            "--delete-data",
            help="With --all: also delete your backends' data and their runs' outputs; asks first.",
        ),
    ] = False,
    cluster: Annotated[
        bool,
        typer.Option("--cluster", help="Also delete the GKE cluster with its disks and pools."),
    ] = False,
) -> None:
    """End a sweep's agents and delete its objects, but not its results.

    Interrupts active runs; the next agents repeat them. --all also stops your embedded backends;
    with --on, only those on that executor. Lists other owners' agents, and ends them only if you
    name the sweep and confirm. Objects that you have no right to read or delete are listed at the
    end, with exit code 1.
    """
    if all_ and (call.given["entity"] or call.given["project"]):
        raise ConfigError("--all", "covers every project", "leave --entity and --project out")
    if sweep and all_:
        raise ConfigError("SWEEP", "has no effect with --all", "leave out one of them")
    if delete_data and not all_:
        raise ConfigError(
            "--delete-data", "deletes every result", "add --all to delete the data of all sweeps"
        )
    config = call.read_of_all() if all_ else call.read_of(sweep)
    provider = choose_provider(call, sweep, config) if cluster else None
    data = _list_data(config, provider) if delete_data else _Data()
    if data.words and not _is_sure_of_data(call, data):
        say("nothing was deleted")
        return
    if provider and provider.cluster:
        paid = provider.cluster
        cloud = paid.find()
        if cloud and not _is_from_here(call, cloud, config):
            say("nothing was deleted")
            return
        path, results_go = _find_if_any(call, sweep, config), provider.name in data.places
        held = [(one.words, one.foreign) for one in paid.list_held(copied=not results_go)]
        name = cloud.rpartition("/")[2]
        removal = Removal(check_held(held, name, call.yes, named=False), results_go)
        telling = reporting_remains(lambda failure: describe_bill(provider, failure))
        with telling, showing_busy():
            take_down_cluster(provider, path, everything=all_, removal=removal)
        Records.load().forget(lambda one: not one.sweep_path and _names(one.cloud, cloud))
        Records.load().change(lambda one: one.cloud == cloud, cloud="")
    if all_:
        with collect_refusals() as refusals:
            gone = {provider.name} if provider else set()
            _end_everywhere(config, call.output, refusals, gone=gone, data=data)
            if _means_here(config):
                _end_backend(data)
            for error in data.unlisted:
                with refusals.noted():
                    raise error
    elif not cluster:
        end_sweep(call, sweep)


def choose_provider(call: Call, sweep: str | None, config: Project) -> Executor:
    """Return the place with the cluster that is meant: a sweep's own, or this folder's.

    One that neither a record nor the folder's `gke:` names is never meant. Raises ConfigError.
    """
    if sweep:
        path = str(call.find_path(sweep, config))
        record = next((one for one in Records.load().of(path) if one.cloud), None)
        if record is None:
            said = f"no cluster is recorded for {path}"
            raise ConfigError("--cluster", said, f"deployer down {path}")
        return _find_recorded(call, record, config)
    own = find_executor(config)
    if config.explicit_on and call.given["on"] and own.cluster is None:
        ways = " or ".join(f"--on {one.name}" for one in _list_providers(config))
        raise ConfigError("--cluster", f"no cluster was made on {own.name}", ways)
    if config.settings.gke:
        return own if own.cluster else _list_providers(config)[0]
    made = (one for one in Records.load().made_in(config.folder) if one.cloud)
    record = next(made, None)
    if record is None:
        said = "no cluster was made for a sweep of this folder, and you named none"
        raise ConfigError(
            "--cluster", said, "deployer down SWEEP --cluster, or deployer gke down SPEC"
        )
    return _find_recorded(call, record, config)


def _list_providers(config: Project) -> list[Executor]:
    every = (find_executor(config, on) for on in list_names())
    return [one for one in every if one.cluster]


def _find_recorded(call: Call, record: SweepRecord, config: Project) -> Executor:
    """Return the place of a sweep's cluster, as the folder describes it that made the sweep."""
    folder = Path(record.folder)
    if folder != config.folder and folder.is_dir():
        config = follow_agents_of(call.read_in(folder), record)
    executor = find_executor(config, record.on)
    assert executor.cluster  # others record no `cloud`
    executor.cluster.select(record.cloud, record.sweep_path)
    return executor


def _names(recorded: str, cloud: str) -> bool:
    parts = zip(recorded.split("/"), cloud.split("/"), strict=False)
    return bool(recorded and cloud) and all(one in (there, "-") for one, there in parts)


def _is_from_here(call: Call, cloud: str, config: Project) -> bool:
    """Name the cluster; return True if it was made from this folder, or is meant all the same."""
    _, project, _, location, _, name = cloud.split("/")
    words = f"cluster {name} in {location} of project {project}"
    say(f"to be deleted: {words}")
    if any(_names(one.cloud, cloud) for one in Records.load().made_in(config.folder)):
        return True
    return call.is_sure(f"{words} was not made for a sweep of this folder: delete it?")


@dataclass
class _Data:
    """The data that `--delete-data` deletes, and nothing else; `words` describe it for the user.

    `folders` are data of local backends, `sweeps` are known only to these, and `outputs` of some of
    them are local. In `places`, claims or disks of backends are deleted. `unlisted` are errors that
    prevented a list; the data behind them stays.
    """

    words: list[str] = field(default_factory=list)
    folders: tuple[Path, ...] = ()
    sweeps: tuple[SweepRecord, ...] = ()
    outputs: tuple[str, ...] = ()
    places: set[str] = field(default_factory=set)
    unlisted: list[DeployerError] = field(default_factory=list)


def _is_sure_of_data(call: Call, data: _Data) -> bool:
    """Show what `--delete-data` deletes; return True if that is meant. Raises ConfigError."""
    for what in data.words:
        say(f"to be deleted: {what}")
    return call.is_sure("delete all of this permanently?")


def _list_data(config: Project, provider: Executor | None) -> _Data:
    """Return the data of backends, local and in clusters, and of their sweeps.

    The cluster of `provider` is deleted as a whole: its disks are listed here, and its claims by
    `list_held`. If a list cannot be read, that data stays.
    """
    data = _list_data_here() if _means_here(config) else _Data()
    for on in sorted(_choose_executors(config) | ({provider.name} if provider else set())):
        whole = provider.cluster if provider and provider.name == on else None
        try:
            found = whole.list_results() if whole else _list_claims(find_executor(config, on))
        except DeployerError as error:
            if not (isinstance(error, CloudError) and error.reason == "NOT_FOUND"):
                say(f"the data on {on} cannot be listed and was kept: {error.message}")
                data.unlisted.append(error)
            continue
        if found or whole:
            data.places.add(on)
        data.words += found
    return data


def _list_data_here() -> _Data:
    sweeps = tuple(filter(_is_kept_here, Records.load()))
    folders = tuple(filter(_holds_data, (backend_folder(), *list_copies())))
    sizes = {one.sweep_path: measure_here(_id_of(one)) for one in sweeps if _id_of(one)}
    outputs = {path: size for path, size in sizes.items() if size}
    words = [f"{folder} ({format_count(len(sweeps), 'sweep')})" for folder in folders]
    words += [
        f"outputs of {path} on this machine, {format_bytes(size)}" for path, size in outputs.items()
    ]
    return _Data(words, folders, sweeps, tuple(outputs))


def _list_claims(executor: Executor) -> Sequence[str]:
    return list_own_claims(executor.backend.kube, executor.on) if executor.backend else ()


def _find_if_any(call: Call, sweep: str | None, config: Project) -> SweepPath | None:
    """Return the sweep that is meant; none was made from here if none is named or known."""
    try:
        return call.find_path(sweep, config)
    except ConfigError:
        if sweep:
            raise
        return None


@naming_repeat()
def _end_everywhere(
    config: Project, output: str, refusals: Refusals, *, gone: Set[str], data: _Data
) -> None:
    """End every sweep's agents in the named location, else in all locations with agents.

    In a cluster the embedded backend is removed too. An error in one location does not stop the
    others.
    """
    executors = [find_executor(config, on) for on in sorted(_choose_executors(config) - gone)]
    ended = Ended()
    for executor in executors:
        with refusals.noted():
            ended += _end_there(executor, refusals, delete_data=executor.name in data.places)
    if ended or not refusals:
        places = ", ".join(executor.place for executor in executors)
        none = f"found no agents of yours on {places}"
        show_ended(
            "every sweep", ended, output, none if executors else "its agents were deleted with it"
        )
    for executor in executors:
        with refusals.noted():
            for options in _list_other_places(executor):
                say(f"not checked, but you have started agents there: deployer down --all{options}")


def _choose_executors(config: Project) -> set[str]:
    """Return the named location, else all locations used from this folder."""
    return {config.on} if config.explicit_on else {config.on} | _list_used(config)


def _list_other_places(executor: Executor) -> Iterable[str]:
    """Return the options for the other contexts and namespaces with agents started from here."""
    records = Records.load().made_in(executor.project.folder)
    used = [one for one in records if one.namespace and one.on == executor.name]
    if not used:
        return ()
    from deployer.kube.access import list_contexts

    known = ("", *list_contexts(executor.project.environment))
    there = [one for one in used if one.is_elsewhere(executor.name, executor.address)]
    return dict.fromkeys(one.place_options for one in there if one.context in known)


def _list_used(config: Project) -> set[str]:
    records = Records.load().made_in(config.folder)
    return {on for record in records for on in (record.on, record.backend_on)} & {*list_names()}


def _means_here(config: Project) -> bool:
    return find_executor(config).runs_here or not config.explicit_on


def _end_there(executor: Executor, refusals: Refusals, *, delete_data: bool) -> Ended:
    try:
        kube = executor.backend.kube if executor.backend else None
    except CloudError as error:
        if error.reason != "NOT_FOUND":
            raise
        say(error.message)  # a deleted cluster has no agents
        return Ended()
    if executor.runs_here and executor.project.owner:
        say("owners do not matter here: all agents on this machine are yours, and end")
    ended = Ended()
    with refusals.noted(), report_slow_stop(executor, None):
        ended = end_willing_agents(executor, None, refusals)
    with refusals.noted():
        for sentence in describe_owners(executor.list_others(), time.time(), executor.on):
            say(sentence)
    if kube is not None:
        end_backend(kube, executor.on, refusals, delete_data=delete_data)
    return ended


def _end_backend(data: _Data) -> None:
    from deployer.backend.server.daemon import stop_backend

    for folder in filter(_holds_data, (backend_folder(), *list_copies())):
        if stop_backend(folder):
            say("embedded backend stopped")
        if folder in data.folders:
            shutil.rmtree(folder, ignore_errors=True)
            if _holds_data(folder):
                hint = f"rm -rf {shlex.quote(str(folder))}"
                raise BackendError(f"{folder} could not be deleted completely", hint)
            say(f"deleted {folder}")
        else:
            say(f"the embedded backend's data stays in {folder}; deployer backend up serves it")
    for record in data.sweeps:
        if record.sweep_path in data.outputs and delete_here(_id_of(record)):
            say(f"deleted the outputs of {record.sweep_path}")
    Records.load().forget(lambda record: any(map(record.is_same, data.sweeps)))


def _holds_data(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _is_kept_here(record: SweepRecord) -> bool:
    return record.server == EMBEDDED and not record.backend_on


def _id_of(record: SweepRecord) -> str:
    return record.sweep_path.rpartition("/")[2]
