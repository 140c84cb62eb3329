"""The end of an embedded backend in a cluster, and of its data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deployer.cli.output.render import say
from deployer.errors import BackendError, Refusals
from deployer.sweeps.records import Records, SweepRecord

if TYPE_CHECKING:
    from deployer.kube.client import Kube
    from deployer.kube.objects import Manifest


def end_backend(kube: Kube, on: str, refusals: Refusals, *, delete_data: bool) -> None:
    """Remove the caller's backend from a cluster, and its data if that is meant; say what was done.

    One that another owner uses stays, which is noted; another owner's is only named.
    """
    from deployer.executors.kubernetes.backend.host import forget_user, name_other_users
    from deployer.executors.kubernetes.backend.removal import list_backend

    there: list[Manifest] = []
    with refusals.noted():
        there = list_backend(kube)
    others = ", ".join(name_other_users(kube, there))
    where, stop = f"namespace {kube.namespace}", f"deployer backend down --on {on}"
    if not others:
        remove_and_tell(kube, on, refusals, delete_data=delete_data)
    elif any(map(kube.owns, there)):
        hint = f"{stop} stops it for all users; only --delete-data deletes its data"
        with refusals.noted():
            raise BackendError(_name_shared(kube, others), hint)
    else:
        if not refusals:
            forget_user(kube)
        say(f"the embedded backend in {where} belongs to {others} and stays; {stop} stops it")


def list_own_claims(kube: Kube, on: str) -> list[str]:
    """Name the claims with the data of the caller's backend, and the sweeps that are known of it.

    One that others use is said to stay. Raises KubeError.
    """
    from deployer.executors.kubernetes.backend.host import list_claims, name_other_users
    from deployer.executors.kubernetes.backend.removal import list_backend

    own = [one["metadata"]["name"] for one in list_claims(kube) if kube.owns(one)]
    if not own:
        return []
    if others := name_other_users(kube, list_backend(kube)):
        say(_name_shared(kube, ", ".join(others)))
        return []
    known = _choose_records(kube)
    sweeps = "".join(f", {one.sweep_path}" for one in Records.load() if known(one))
    where = f"namespace {kube.namespace} on {on}{sweeps}"
    return [f"PersistentVolumeClaim {name} in {where}" for name in own]


def _choose_records(kube: Kube) -> Callable[[SweepRecord], bool]:
    """Return what is true of the records of the sweeps in this cluster's and namespace's backend.

    Raises KubeError.
    """
    from deployer.executors.kubernetes.backend.deployment import NAME, build_url
    from deployer.kube.client import identify_cluster

    here = (identify_cluster(kube), build_url(NAME, kube.namespace))
    return lambda record: (record.cluster, record.base_url) == here


def _name_shared(kube: Kube, others: str) -> str:
    return f"the embedded backend in namespace {kube.namespace} stays: {others} uses it as well"


def remove_and_tell(
    kube: Kube, on: str, refusals: Refusals, *, delete_data: bool, everyone: bool = False
) -> bool:
    from deployer.executors.kubernetes.backend.removal import find_data, remove_backend

    claim, stopped = "", False
    known: Callable[[SweepRecord], bool] = bool
    with refusals.noted():
        claim = find_data(kube)
        known = _choose_records(kube)
    with refusals.noted():
        stopped = remove_backend(kube, refusals, delete_data=delete_data, everyone=everyone)
    where = f"namespace {kube.namespace}"
    if stopped:
        say(f"embedded backend in {where} stopped")
    if claim and delete_data and not refusals:
        Records.load().forget(known)
        say(f"deleted PersistentVolumeClaim {claim} in {where}, with all of its sweeps")
    elif claim:
        again = f"deployer backend up --on {on} starts it again"
        say(f"the embedded backend's data stays in PersistentVolumeClaim {claim}, {where}: {again}")
    return stopped
