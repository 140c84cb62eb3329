"""`deployer gke` and `deployer orphans`: resources that cost money, and leftovers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deployer.cli.output.live import showing_busy
from deployer.cli.output.render import Aside, Table, emit, say, warn
from deployer.cli.shell.call import PLACE, App, Call, CommandWithYaml, can_ask, check_held, confirm
from deployer.cli.shell.options import CapacityOption, read_duration
from deployer.config.project import Project
from deployer.errors import CloudError, ConfigError, DeployerError, ExitCode, KubeError
from deployer.launch.provision import describe_cloud, describe_owners, reporting_remains
from deployer.launch.request import read_environment
from deployer.text import format_seconds
from deployer.waiting import waiting_for

if TYPE_CHECKING:
    from deployer.executors.base import Belongings
    from deployer.executors.gke.orphans import Remains
    from deployer.executors.kubernetes.orphans import Leftover
    from deployer.gke.api.client import Gke
    from deployer.gke.api.model import CloudCluster, CloudPool
    from deployer.gke.pricing import Prices
    from deployer.gke.specification import ClusterSpec
    from deployer.kube.client import Kube


# `deployer gke`: create, list and delete a GKE cluster from a specification.

WITHOUT = (*PLACE, "wandb", "entity")  # they need no agents and no sweep
gke_app = App("Make, list and remove GKE clusters.")

SpecArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="SPEC",
        help="A specification: a file, or the name of a packaged one; "
        "default: `gke:` of deployer.yaml, else t4.",
    ),
]


@gke_app.command(cls=CommandWithYaml, without=WITHOUT)
def plan(call: Call, spec: SpecArgument = None) -> None:
    """Print the requests that `gke up` would send, and the price; contacts nothing."""
    from deployer.executors.gke.executor import warn_about_gpus
    from deployer.gke.api.messages import describe_plan

    config = call.read()
    chosen = _load(call, spec, config)
    _say_prices(chosen, config, sources=True)
    for line in warn_about_gpus(config, chosen):
        warn(line)
    calls = describe_plan(chosen)
    shown = [{"call": name, "parent": parent, "message": sent} for name, parent, sent in calls]
    call.emit([*shown, *_plan_timer(chosen)])


@gke_app.command(without=WITHOUT)
def up(
    call: Call,
    spec: SpecArgument = None,
    wait_for_capacity: CapacityOption = None,
) -> None:
    """Create the cluster, or complete it; changes nothing if it is complete."""
    from deployer.executors.gke.executor import set_timer
    from deployer.executors.gke.timer import check_role
    from deployer.gke.cluster.creation import ensure_cluster
    from deployer.gke.pricing import describe_fallback, load_prices

    config = call.read()
    chosen = _load(call, spec, config)
    _say_prices(chosen, config)
    gke = _open(chosen, config)
    for line in check_role(gke, chosen):
        say(line)
    wait_seconds = wait_for_capacity or 0.0
    with _reporting_remains(call, gke, chosen, spec):
        with showing_busy():
            cluster = ensure_cluster(gke, chosen, wait_seconds=wait_seconds)
        prices = load_prices(config.folder)
        for line in describe_fallback(chosen, cluster.location, cluster.pool_names, prices):
            say(line)
        for line in set_timer(gke, chosen, cluster) if chosen.delete_when_idle else ():
            say(line)
        _show_cluster(gke, cluster, call.output)


@gke_app.command(without=WITHOUT)
def down(
    call: Call,
    spec: SpecArgument = None,
    delete_data: Annotated[
        bool, typer.Option("--delete-data", help="Also delete the backend's results.")
    ] = False,
) -> None:
    """Delete the cluster and everything created for it, and verify that nothing is left.

    Lists objects that others use or own, and asks before it deletes them. Keeps disks with results
    unless you add --delete-data. At the end, checks that no other resource has deployer's labels.
    """
    from deployer.executors.gke.cluster import remove_with_proof
    from deployer.gke.api.operations import Waiter
    from deployer.gke.pricing import load_prices
    from deployer.gke.teardown import Terms, list_held

    config = call.read()
    chosen = _load(call, spec, config)
    gke = _open(chosen, config)
    terms = Terms(delete_data=delete_data, near=chosen.locations)
    held = list_held(gke, chosen.name, Waiter(), terms)
    for one in held:
        if one.has_backend and not delete_data:
            raise CloudError(
                f"{one.cluster.words} holds the results of its embedded backend",
                "deployer down --cluster --on gke copies them here first; or add --delete-data",
                "HOLDS_RESULTS",
            )
    kept = [(one.words, one.foreign) for one in held]
    sure = check_held(kept, chosen.name, call.yes, named=spec is not None)
    data = ", its disks and what is on them" if delete_data else " and its disks without results"
    what = f"cluster {chosen.name} of project {gke.project}{data}"
    if not sure and not call.is_sure(f"delete {what}?"):
        say("nothing was deleted")
        return
    terms = replace(terms, sure=sure)
    with _reporting_remains(call, gke, chosen, spec), showing_busy():
        left = remove_with_proof(gke, chosen, terms, load_prices(config.folder))
    call.emit(left)


@gke_app.command("list", without=WITHOUT)
def list_(call: Call, spec: SpecArgument = None) -> None:
    """List the project's clusters, also those of others, with pools and Google's messages.

    Exits with 1 if a location does not answer.
    """
    config = call.read()
    gke = _open(_load(call, spec, config), config)
    listing = gke.list_clusters()
    rows = [_describe(gke, cluster) for cluster in listing.clusters]
    names = ("name", "location", "status", "gpus", "created_at", "ours", "owner_name")
    table = Table(
        [*(name.replace("_at", "").replace("_name", "").upper() for name in names), "POOLS"],
        [[*(row[name] for name in names), _list_pools(row)] for row in rows],
        empty=f"no clusters in project {gke.project}",
    )
    conditions = (f"{row['name']}: {line}" for row in rows for line in _list_conditions(row))
    call.emit(rows, table, *conditions)
    listing.check()


def _reporting_remains(
    call: Call, gke: Gke, chosen: ClusterSpec, spec: str | None
) -> AbstractContextManager[None]:
    from deployer.gke.inventory import describe_existing
    from deployer.gke.pricing import load_prices

    project = call.given["project"]
    words = ["deployer gke down", spec, f"--project {project}" if project else None]
    command = " ".join(filter(None, words))

    def describe() -> Sequence[str]:
        return describe_existing(gke, chosen, load_prices(call.read().folder), command)

    return reporting_remains(lambda failure: describe_cloud(describe, failure))


def _plan_timer(spec: ClusterSpec) -> list[dict[str, object]]:
    from deployer.executors.gke.timer import build_timer, describe_grant
    from deployer.gke.api.messages import ANY_PROJECT

    project = spec.project or ANY_PROJECT
    manifests = build_timer(spec, project, spec.locations[0], 0.0)
    if manifests:
        say("the timer that deletes the idle cluster needs a role; grant it once:")
        for command in describe_grant(spec, project):
            say(f"  {command}")
    return [{"call": "apply", "parent": f"cluster {spec.name}", "message": m} for m in manifests]


def _load(call: Call, spec: str | None, config: Project) -> ClusterSpec:
    from deployer.gke.specification import load_spec

    # A path on the command line is relative to the current folder.
    named = (spec, Path.cwd()) if spec else (config.settings.gke, config.folder)
    loaded = load_spec(*named)
    return replace(loaded, project=call.given["project"] or loaded.project)


def _open(spec: ClusterSpec, config: Project) -> Gke:
    with waiting_for("Google's libraries to load"):
        from deployer.gke.api.client import open_gke

    return open_gke(spec.project, read_environment(), config.owner)


def _say_prices(spec: ClusterSpec, config: Project, *, sources: bool = False) -> None:
    from deployer.gke.pricing import (
        describe_ends,
        describe_estimate,
        describe_lines,
        estimate,
        load_prices,
    )

    found = estimate(spec, spec.locations[0], load_prices(config.folder))
    # Both contain missing rows.
    told = (*describe_estimate(found), *describe_ends(spec, found))
    if sources:
        told = (*describe_lines(found), *told)
    for line in dict.fromkeys(told):
        say(line)


def _show_cluster(gke: Gke, cluster: CloudCluster, output: str) -> None:
    described = _describe(gke, cluster)
    said = f"cluster {cluster.name} in {cluster.location}, project {gke.project}: {cluster.status}"
    pools = [
        (p["name"], p["status"], p["machine_type"], p["gpus"], p["nodes"])
        for p in described["pools"]
    ]
    table = Table(("POOL", "STATUS", "MACHINE", "GPUS", "NODES"), pools)
    emit(described, output, said, table, *_list_conditions(described))


def _list_conditions(row: Mapping[str, Any]) -> list[str]:
    return [f"{one['code']}: {one['message']}" for one in row["conditions"]]


def _list_pools(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{p['name']} {p['status']} ({p['nodes']})" for p in row["pools"])


def _describe(gke: Gke, cluster: CloudCluster) -> Mapping[str, Any]:
    pools = [_describe_pool(pool) for pool in cluster.pools]
    return {
        "name": cluster.name,
        "project": gke.project,
        "location": cluster.location,
        "status": cluster.status,
        "version": cluster.version,
        "endpoint": cluster.endpoint,
        "created_at": cluster.created_at,
        "ours": cluster.ours,
        "owner": cluster.owner.id if cluster.owner else None,
        "owner_name": cluster.owner.name if cluster.owner else None,
        "labels": cluster.labels,
        "gpus": ", ".join(dict.fromkeys(str(pool["gpus"]) for pool in pools if pool["gpus"])),
        "pools": pools,
        "conditions": [
            {"code": code, "message": message}
            for conditions in (cluster.conditions, *(pool.conditions for pool in cluster.pools))
            for code, message in conditions
        ],
    }


def _describe_pool(pool: CloudPool) -> Mapping[str, object]:
    gpus = ", ".join(f"{count} {kind}" for kind, count in pool.accelerators)
    fixed = pool.min_nodes == pool.max_nodes
    return {
        "name": pool.name,
        "status": pool.status,
        "machine_type": pool.machine_type,
        "gpus": gpus + (" spot" if gpus and pool.spot else ""),
        "spot": pool.spot,
        "nodes": str(pool.max_nodes) if fixed else f"{pool.min_nodes} to {pool.max_nodes}",
        "min_nodes": pool.min_nodes,
        "max_nodes": pool.max_nodes,
    }


# `deployer orphans`: leftovers of older or crashed runs in the cloud and in the cluster.

orphans_app = App()


@dataclass(frozen=True)
class Searched:
    """The leftovers of the caller and of others in the kubeconfig's cluster, or an error."""

    kube: Kube | None = None
    objects: Sequence[Leftover] = ()
    others: Sequence[Belongings] = ()
    unchecked: str = ""

    @property
    def now(self) -> float:
        """Return the cluster's clock, in seconds since the epoch."""
        return self.kube.now() if self.kube else time.time()

    def list_ages(self) -> Iterator[tuple[Leftover, float]]:
        """Yield the caller's leftovers with their age by the cluster's clock, in seconds."""
        for one in self.objects:
            yield one, max(0.0, self.now - one.created_at)


@orphans_app.command(without=("on", "namespace", "wandb", "entity"))
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
    if call.output == "table":  # show what is to be removed before asking
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
    """Return the cloud client; None if only Kubernetes can be searched."""
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
        say("no kubeconfig found: Kubernetes was not searched")
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
    """Return the leftovers, and the zones that do not answer: `-` stands for all of them."""
    from deployer.executors.gke.orphans import find_remains

    try:
        found, missing = find_remains(gke, min_age, names)
    except CloudError as error:
        if names:
            raise
        _say_unchecked(f"Google's project {gke.project}", error)
        return (), ("-",)
    for zone in missing:
        say(f"not checked: {zone} does not answer")
    for name in sorted(set(names) - {one.name for one in found}):
        say(f"nothing of {name} was found in project {gke.project}")
    return (tuple(one for one in found if one.name in names) if names else found), missing


def _load_prices() -> Prices:
    from deployer.gke.pricing import load_prices

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
    from deployer.executors.gke.orphans import remove_remains, report_rest
    from deployer.gke.api.operations import Waiter
    from deployer.gke.teardown import Terms

    terms, prices = Terms(named, delete_data=delete_data), _load_prices()
    failures: list[CloudError] = []
    for remains in going:
        try:
            left = remove_remains(gke, remains, Waiter(), terms)
        except CloudError as error:  # one failure must not stop the others
            failures.append(error)
        else:
            report_rest(remains.name, left, prices)
    if failures:
        said = "\n".join(dict.fromkeys(error.message for error in failures))
        raise CloudError(said, failures[-1].hint, failures[-1].reason)
