"""`deployer gke`: a GKE cluster from a specification, made, listed and removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deployer.cli.output.live import showing_busy
from deployer.cli.output.render import Table, emit, say, warn
from deployer.cli.shell.call import PLACE, App, Call, CommandWithYaml, check_held
from deployer.cli.shell.options import CapacityOption
from deployer.config.project import Project
from deployer.errors import CloudError
from deployer.launch.provision import describe_cloud, telling_remains
from deployer.launch.request import read_environment
from deployer.waiting import waiting_for

if TYPE_CHECKING:
    from deployer.gke.api.client import Gke
    from deployer.gke.api.model import CloudCluster, CloudPool
    from deployer.gke.specification.spec import ClusterSpec

WITHOUT = (*PLACE, "wandb", "entity")  # no agents, and no sweep
app = App("Make, list and remove GKE clusters.")

SpecArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="SPEC",
        help="A specification: a file, or the name of a packaged one; "
        "default: `gke:` of deployer.yaml, else t4.",
    ),
]


@app.command(cls=CommandWithYaml, without=WITHOUT)
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


@app.command(without=WITHOUT)
def up(
    call: Call,
    spec: SpecArgument = None,
    wait_for_capacity: CapacityOption = None,
) -> None:
    """Create the cluster, or complete it; changes nothing if it is complete."""
    from deployer.executors.gke.executor import set_timer
    from deployer.executors.gke.timer import check_role
    from deployer.gke.cluster.creation import ensure_cluster
    from deployer.gke.pricing.estimate import load_prices
    from deployer.gke.pricing.sentences import describe_fallback

    config = call.read()
    chosen = _load(call, spec, config)
    _say_prices(chosen, config)
    gke = _open(chosen, config)
    for line in check_role(gke, chosen):
        say(line)
    wait_seconds = wait_for_capacity or 0.0
    with _telling_remains(call, gke, chosen, spec):
        with showing_busy():
            cluster = ensure_cluster(gke, chosen, wait_seconds=wait_seconds)
        prices = load_prices(config.folder)
        for line in describe_fallback(chosen, cluster.location, cluster.pool_names, prices):
            say(line)
        for line in set_timer(gke, chosen, cluster) if chosen.delete_when_idle else ():
            say(line)
        _show_cluster(gke, cluster, call.output)


@app.command(without=WITHOUT)
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
    from deployer.executors.gke.executor import remove_with_proof
    from deployer.gke.api.operations import Waiter
    from deployer.gke.pricing.estimate import load_prices
    from deployer.gke.removal.teardown import Terms, list_held

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
    with _telling_remains(call, gke, chosen, spec), showing_busy():
        left = remove_with_proof(gke, chosen, terms, load_prices(config.folder))
    call.emit(left)


@app.command("list", without=WITHOUT)
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


def _telling_remains(
    call: Call, gke: Gke, chosen: ClusterSpec, spec: str | None
) -> AbstractContextManager[None]:
    from deployer.gke.cluster.existing import describe_existing
    from deployer.gke.pricing.estimate import load_prices

    project = call.given["project"]
    words = ["deployer gke down", spec, f"--project {project}" if project else None]
    command = " ".join(filter(None, words))

    def describe() -> Sequence[str]:
        return describe_existing(gke, chosen, load_prices(call.read().folder), command)

    return telling_remains(lambda failure: describe_cloud(describe, failure))


def _plan_timer(spec: ClusterSpec) -> list[dict[str, object]]:
    """Return what the timer would be, and say which right it has to be given."""
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
    from deployer.gke.specification.spec import load_spec

    # A path on the command line is relative to where it was typed.
    named = (spec, Path.cwd()) if spec else (config.settings.gke, config.folder)
    loaded = load_spec(*named)
    return replace(loaded, project=call.given["project"] or loaded.project)


def _open(spec: ClusterSpec, config: Project) -> Gke:
    with waiting_for("Google's libraries to load"):
        from deployer.gke.api.client import open_gke

    return open_gke(spec.project, read_environment(), config.owner)


def _say_prices(spec: ClusterSpec, config: Project, *, sources: bool = False) -> None:
    from deployer.gke.pricing.estimate import estimate, load_prices
    from deployer.gke.pricing.sentences import describe_ends, describe_estimate, describe_lines

    found = estimate(spec, spec.locations[0], load_prices(config.folder))
    # A row that is missing is in both.
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
    """Return each pool's name, state and number of nodes."""
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
