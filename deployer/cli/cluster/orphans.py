"""`deployer orphans`: what older or crashed runs left in the cloud and in the cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deployer.cli.output.agent_views import describe_others
from deployer.cli.output.render import say, show, show_json, show_table
from deployer.cli.shell.command_group import make_app
from deployer.cli.shell.confirmation import YesOption, can_ask, confirm
from deployer.cli.shell.options import Output, OutputOption, read_config, read_duration
from deployer.config.project import Flags
from deployer.errors import CloudError, ConfigError, KubeError
from deployer.launch.environment import read_environment

if TYPE_CHECKING:
    from deployer.executors.base import Belongings
    from deployer.executors.gke.orphans import Remains
    from deployer.executors.kubernetes.orphans import Leftover
    from deployer.gke.api.client import Gke
    from deployer.kube.client import Kube

app = make_app()


@app.command()
def orphans(
    yes: YesOption = False,
    project: Annotated[
        str | None, typer.Option("--project", metavar="PROJECT", help="Google's project.")
    ] = None,
    unreachable: Annotated[
        bool,
        typer.Option(
            "--unreachable",
            help="Also clusters that run and cannot be asked whether agents are at work there.",
        ),
    ] = False,
    min_age: Annotated[
        float,
        typer.Option(
            "--min-age",
            metavar="DURATION",
            parser=read_duration,
            help="Younger clusters stay: somebody's `up` may be making them.",
        ),
    ] = "1h",  # type: ignore[assignment]
    output: OutputOption = Output.TABLE,
) -> None:
    """Find what older or crashed runs left in the cloud and the kubeconfig's cluster; remove it.

    What is found is shown, and nothing is removed unasked. Clusters in which agents are at work, or
    which hold results, stay.
    """
    old_since = time.time() - min_age
    kube = _open_kube()
    gke = _open_gke(project, needed=kube is None)
    found = _find_cloud(gke, old_since) if gke else ()
    objects, others = _find_objects(kube) if kube else ((), ())
    going = [one for one in found if _goes(one, unreachable)]
    if output == "table":
        _show(found, objects, unreachable)
    for sentence in describe_others(others, time.time()):
        say(sentence)
    sure = bool(going or objects) and (yes or (can_ask() and confirm("remove what is left over?")))
    if sure:
        _remove(gke, going, kube, objects)
    elif going or objects:
        say("nothing was removed; deployer orphans --yes removes what is left over")
    if output == "json":
        cloud = [{**one.describe(), "removed": sure and _goes(one, unreachable)} for one in found]
        show_json({"cloud": cloud, "kubernetes": objects, "others": others, "removed": sure})


def _open_gke(project: str | None, needed: bool) -> Gke | None:
    """Return a client of the cloud; None where only Kubernetes can be searched."""
    from deployer.gke.api.client import open_gke

    try:
        return open_gke(project, read_environment())
    except CloudError as error:
        if needed or project:
            raise
        say(f"Google Cloud is not searched: {error.message}")
        return None


def _open_kube() -> Kube | None:
    """Return a client of the kubeconfig's cluster, None if there is no kubeconfig."""
    from deployer.kube.client import open_kube

    try:
        return open_kube(environment=read_environment(), owner=read_config(Flags()).owner)
    except ConfigError:
        return None


def _find_cloud(gke: Gke, old_since: float) -> tuple[Remains, ...]:
    from deployer.executors.gke.orphans import find_remains

    return find_remains(gke, say, old_since)


def _find_objects(kube: Kube) -> tuple[Sequence[Leftover], Sequence[Belongings]]:
    """Return what the caller left, and what other owners have."""
    from deployer.executors.kubernetes.orphans import list_leftovers, list_others

    try:
        return list_leftovers(kube), list_others(kube)
    except KubeError as error:
        say(f"the kubeconfig's cluster is not searched: {error.message}")
        return (), ()


def _goes(remains: Remains, unreachable: bool) -> bool:
    from deployer.executors.gke.orphans import LEFT_OVER, UNKNOWN

    return remains.use == LEFT_OVER or (unreachable and remains.use == UNKNOWN)


def _show(found: Sequence[Remains], objects: Sequence[Leftover], unreachable: bool) -> None:
    if not found and not objects:
        show("nothing is left over")
        return
    if found:
        show_table(
            ("CLUSTER", "WHAT", "USE"), (row for remains in found for row in _list_rows(remains))
        )
    if objects:
        show_table(
            ("NAMESPACE", "KIND", "NAME", "SWEEP"),
            [(one.namespace, one.kind, one.name, one.sweep_path) for one in objects],
        )
    for remains in found:
        if not _goes(remains, unreachable):
            say(_explain(remains))


def _list_rows(remains: Remains) -> Iterator[tuple[str, str, str]]:
    for name in remains.inventory.names():
        yield remains.name, name, remains.use


def _explain(remains: Remains) -> str:
    from deployer.executors.gke.orphans import YOUNG

    if remains.use == YOUNG:
        return (
            f"cluster {remains.name} stays: it is young, and may be what an `up` is making; "
            "--min-age 0s removes it, too"
        )
    if remains.agents is None:
        return (
            f"cluster {remains.name} stays: whether agents are at work there cannot be told from "
            "here; --unreachable removes it, too"
        )
    if not remains.agents:
        return (
            f"cluster {remains.name} stays: the backend in it holds results; "
            "deployer gke down removes it with them"
        )
    return f"cluster {remains.name} stays: {remains.agents} agents are at work there"


def _remove(
    gke: Gke | None, going: Sequence[Remains], kube: Kube | None, objects: Sequence[Any]
) -> None:
    from deployer.executors.kubernetes.orphans import delete_leftovers

    if kube and objects:
        delete_leftovers(kube, objects)
        say(f"deleted {len(objects)} objects in the kubeconfig's cluster")
    if not gke or not going:
        return
    from deployer.executors.gke.orphans import remove_remains
    from deployer.gke.api.operations import Waiter

    failures: list[CloudError] = []
    for remains in going:
        try:
            remove_remains(gke, remains, Waiter(say))
        except CloudError as error:  # what is left of one is no reason to leave another
            failures.append(error)
        else:
            say(f"nothing of ours is left of {remains.name}")
    if failures:
        said = "\n".join(dict.fromkeys(error.message for error in failures))
        raise CloudError(said, failures[-1].hint, failures[-1].reason)
