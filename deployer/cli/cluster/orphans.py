"""`deployer orphans`: what older or crashed runs left in the cloud and in the cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deployer.cli.output.render import Aside, Table, say
from deployer.cli.shell.call import App, Call, can_ask, confirm
from deployer.cli.shell.options import read_duration
from deployer.errors import CloudError, ConfigError, DeployerError, ExitCode, KubeError
from deployer.launch.provision import describe_owners
from deployer.launch.request import read_environment
from deployer.text import format_seconds
from deployer.waiting import waiting_for

if TYPE_CHECKING:
    from deployer.executors.base import Belongings
    from deployer.executors.gke.orphans import Remains
    from deployer.executors.kubernetes.orphans import Leftover
    from deployer.gke.api.client import Gke
    from deployer.gke.pricing.estimate import Prices
    from deployer.kube.client import Kube

app = App()


@dataclass(frozen=True)
class Searched:
    """What the caller left in the kubeconfig's cluster, what others have, or why nobody knows."""

    kube: Kube | None = None
    objects: Sequence[Leftover] = ()
    others: Sequence[Belongings] = ()
    unchecked: str = ""

    @property
    def now(self) -> float:
        """Return the cluster's clock, in seconds since the epoch."""
        return self.kube.now() if self.kube else time.time()

    def list_ages(self) -> Iterator[tuple[Leftover, float]]:
        """Yield what the caller left with its age by the cluster's clock, in seconds."""
        for one in self.objects:
            yield one, max(0.0, self.now - one.created_at)


@app.command(without=("on", "namespace", "wandb", "entity"))
def orphans(
    call: Call,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Clusters to delete with everything in them, even if they are not yours; "
            "default: your own old and empty clusters.",
        ),
    ] = None,
    delete_data: Annotated[
        bool,
        typer.Option("--delete-data", help="Also delete disks with results."),
    ] = False,
    min_age: Annotated[
        float,
        typer.Option(
            "--min-age",
            metavar="DURATION",
            parser=read_duration,
            help="Keep younger clusters and disks: a running `up` may be creating them.",
        ),
    ] = "1h",  # type: ignore[assignment]
) -> None:
    """Remove leftovers of older or crashed sweeps, in the cloud and in the kubeconfig's cluster.

    Lists the leftovers and asks before it removes them. Keeps other owners' objects, objects that
    others use, and results, unless you name their cluster (NAME). Also lists objects that it could
    not check, with exit code 1. `--project` is Google's project.
    """
    searched = Searched() if names else _search_kubernetes(call)
    gke = _open_gke(call, needed=not (searched.kube or searched.unchecked))
    found, missing = _find_cloud(gke, min_age, names or ()) if gke else ((), ())
    objects = searched.objects
    going = [one for one in found if (one.name in names if names else one.goes(delete_data))]
    if call.output == "table":  # what is to be removed is seen before the question
        call.emit(None, *_list_shown(found, searched, going, missing))
    for sentence in describe_owners(searched.others, searched.now):
        say(sentence)
    sure = False
    if names and going:
        sure = call.is_sure(f"delete {', '.join(sorted(set(names)))} and everything listed?")
    elif going or objects:
        sure = call.yes or (can_ask() and confirm("remove the leftovers?"))
        if not sure:
            say("removed nothing; deployer orphans --yes removes the leftovers")
    if sure:
        _remove(gke, going, searched, named=bool(names), delete_data=delete_data)
    if call.output == "json":
        prices = _load_prices()
        cloud = [{**one.describe(prices), "removed": sure and one in going} for one in found]
        kubernetes = {"kubernetes": objects, "not_checked": searched.unchecked or None}
        document = {"cloud": cloud, **kubernetes, "others": searched.others, "removed": sure}
        call.emit({**document, "unchecked_zones": missing})
    kept = [one for one in found if not (sure and one in going)]
    if missing or searched.unchecked or any(one.unchecked for one in kept):
        raise typer.Exit(ExitCode.REFUSED)


def _open_gke(call: Call, needed: bool) -> Gke | None:
    """Return a client of the cloud; None where only Kubernetes can be searched."""
    with waiting_for("Google's libraries to load"):
        from deployer.gke.api.client import open_gke

    environment, project = read_environment(), call.given["project"]
    try:
        return open_gke(project, environment, call.read().owner)
    except CloudError as error:
        if needed or project or environment.get("GOOGLE_APPLICATION_CREDENTIALS"):
            raise
        say(f"Google Cloud is not searched: {error.message}")
        return None


def _search_kubernetes(call: Call) -> Searched:
    from deployer.executors.kubernetes.orphans import list_leftovers, list_others
    from deployer.kube.access import is_configured
    from deployer.kube.client import open_kube

    environment, owner = read_environment(), call.read().owner
    if not is_configured(environment):
        say("no kubeconfig found: skipping Kubernetes")
        return Searched()
    try:
        kube = open_kube(call.given["context"], environment=environment, owner=owner)
        return Searched(kube, list_leftovers(kube), list_others(kube))
    except (ConfigError, KubeError) as error:
        _say_unchecked("the kubeconfig's cluster", error)
        return Searched(unchecked=error.message)


def _say_unchecked(what: str, error: DeployerError) -> None:
    say(f"not checked: {what}: {error.message}")
    if error.hint:
        say(f"hint: {error.hint}")


def _find_cloud(
    gke: Gke, min_age: float, names: Sequence[str]
) -> tuple[tuple[Remains, ...], Sequence[str]]:
    """Return what there is, and the zones that do not answer: `-` stands for all of them."""
    from deployer.executors.gke.orphans import find_remains

    try:
        found, missing = find_remains(gke, min_age, names)
    except CloudError as error:
        if names:
            raise
        _say_unchecked(f"Google's project {gke.project}", error)
        return (), ("-",)
    for zone in missing:
        say(f"not checked: {zone}, which does not answer")
    for name in sorted(set(names) - {one.name for one in found}):
        say(f"nothing of {name} was found in project {gke.project}")
    return (tuple(one for one in found if one.name in names) if names else found), missing


def _load_prices() -> Prices:
    from deployer.gke.pricing.estimate import load_prices

    return load_prices(Path.cwd())


def _list_shown(
    found: Sequence[Remains],
    searched: Searched,
    going: Sequence[Remains],
    missing: Sequence[str],
) -> list[Table | str]:
    if not (found or searched.objects or searched.unchecked):
        return ["found nothing else" if missing else "no leftovers"]
    cloud = [row for remains in found for row in _list_rows(remains)]
    kubernetes = [
        (one.namespace, one.kind, one.name, one.sweep_path, format_seconds(age))
        for one, age in searched.list_ages()
    ]
    return [
        Table(("CLUSTER", "WHAT", "OWNER", "AGE", "USE"), cloud),
        Table(("NAMESPACE", "KIND", "NAME", "SWEEP", "AGE"), kubernetes),
        *(
            Aside(line)
            for remains in found
            for line in remains.explain(_load_prices(), stays=remains not in going)
        ),
    ]


def _list_rows(remains: Remains) -> Iterator[tuple[str, str, str, str, str]]:
    owner = remains.owner.name if remains.owner else "unknown"
    for name in remains.inventory.names():
        yield remains.name, name, owner, format_seconds(remains.age_seconds), remains.use


def _remove(
    gke: Gke | None,
    going: Sequence[Remains],
    searched: Searched,
    *,
    named: bool,
    delete_data: bool,
) -> None:
    from deployer.executors.kubernetes.orphans import delete_leftovers

    if searched.kube and searched.objects:
        delete_leftovers(searched.kube, searched.objects)
        say(f"deleted {len(searched.objects)} objects in the kubeconfig's cluster")
    if not gke or not going:
        return
    from deployer.executors.gke.orphans import remove_remains, tell_rest
    from deployer.gke.api.operations import Waiter
    from deployer.gke.removal.teardown import Terms

    terms, prices = Terms(named, delete_data=delete_data), _load_prices()
    failures: list[CloudError] = []
    for remains in going:
        try:
            left = remove_remains(gke, remains, Waiter(), terms)
        except CloudError as error:  # what is left of one is no reason to leave another
            failures.append(error)
        else:
            tell_rest(remains.name, left, prices)
    if failures:
        said = "\n".join(dict.fromkeys(error.message for error in failures))
        raise CloudError(said, failures[-1].hint, failures[-1].reason)
