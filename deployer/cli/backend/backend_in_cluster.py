"""`deployer backend … --on kubernetes`: the embedded backend in a cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from deployer.backend.server.health import Health
from deployer.cli.output.busy import showing_busy
from deployer.cli.output.render import say, show, show_json, warn
from deployer.cli.shell.confirmation import is_sure
from deployer.cli.shell.options import read_config
from deployer.config.project import Flags, Project
from deployer.errors import BackendError, ConfigError, Refusals, collect_refusals
from deployer.executors.registry import find_target
from deployer.sweeps.records import Records, SweepRecord
from deployer.wandb_api.client import Client
from deployer.wandb_api.server import make_link

if TYPE_CHECKING:
    from deployer.executors.kubernetes.backend.deployment import ClusterBackend
    from deployer.kube.client import Kube
    from deployer.kube.kinds import Manifest


def choose_config(on: str | None, data: Path | None) -> Project | None:
    """Return the config if a cluster's backend is meant; None for this machine's.

    Raises ConfigError for a data folder and a cluster at once.
    """
    config = read_config(Flags(on=on))
    if not find_target(config).hosts_backend or (data and not on):
        return None
    if data:
        raise ConfigError("--data", "is a folder of this machine", "leave out --on or --data")
    return config


def up(config: Project, output: str) -> None:
    """Make the backend, or bring it in line with `deployer.yaml`, and wait until it is ready."""
    from deployer.executors.kubernetes.backend.deployment import ensure_backend

    target = find_target(config)
    kube = target.open_kube()
    with showing_busy():
        target.prepare_backend(kube)
        backend = ensure_backend(kube, config, config.on, anew=True)
    _show(kube, backend, config.on, output)


def status(config: Project, output: str) -> None:
    """Say whether the backend is ready, and where."""
    from deployer.executors.kubernetes.backend.deployment import require_backend

    kube = find_target(config).open_kube()
    _show(kube, require_backend(kube, config.on), config.on, output)


def down(config: Project, yes: bool, output: str) -> None:
    """Stop the backend, another owner's only if the user is sure; its data stays."""
    from deployer.executors.kubernetes.backend.removal import list_backend
    from deployer.executors.kubernetes.backend.users import name_other_users

    kube = find_target(config).open_kube()
    if others := name_other_users(kube, list_backend(kube)):
        say(f"the embedded backend in namespace {kube.namespace} is used by {', '.join(others)}")
        if not is_sure("stop it for everybody?", yes):
            say("nothing was stopped")
            return
    with collect_refusals() as refusals:
        stopped = _remove(kube, config.on, refusals, delete_data=False, everyone=True)
    if output == "json":
        show_json({"stopped": stopped})


def end_backend(kube: Kube, on: str, refusals: Refusals, *, delete_data: bool) -> None:
    """Remove the caller's backend from a cluster, and its data if that is meant; say what was done.

    One that another owner uses stays, which is noted; another owner's is only named.
    """
    from deployer.executors.kubernetes.backend.removal import list_backend
    from deployer.executors.kubernetes.backend.users import name_other_users

    there: list[Manifest] = []
    with refusals.noted():
        there = list_backend(kube)
    others = ", ".join(name_other_users(kube, there))
    where, stop = f"namespace {kube.namespace}", f"deployer backend down --on {on} -y"
    if not others:
        _remove(kube, on, refusals, delete_data=delete_data)
    elif any(map(kube.owns, there)):
        with refusals.noted():
            raise BackendError(
                _name_shared(kube, others), f"{stop} stops it for everybody; its data stays"
            )
    else:
        say(f"the embedded backend in {where} belongs to {others} and stays; {stop} stops it")


def list_own_claims(kube: Kube, on: str) -> list[str]:
    """Name the claims with the data of the caller's backend, and the sweeps that are known of it.

    One that others use is said to stay. Raises KubeError.
    """
    from deployer.executors.kubernetes.backend.removal import list_backend
    from deployer.executors.kubernetes.backend.users import list_claims, name_other_users

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
    from deployer.executors.kubernetes.backend.manifests import NAME, build_url
    from deployer.kube.identity import identify_cluster

    here = (identify_cluster(kube), build_url(NAME, kube.namespace))
    return lambda record: (record.cluster, record.base_url) == here


def _name_shared(kube: Kube, others: str) -> str:
    return f"the embedded backend in namespace {kube.namespace} stays: {others} uses it, too"


def _remove(
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
        say(f"deleted PersistentVolumeClaim {claim} in {where}, and with it all sweeps")
    elif claim:
        again = f"deployer backend up --on {on} serves it again"
        say(f"the embedded backend's data stays in PersistentVolumeClaim {claim}, {where}: {again}")
    return stopped


def list_variables(config: Project) -> dict[str, str]:
    """Return what points the plain SDK at the backend, through the port that `open` holds."""
    from deployer.executors.kubernetes.backend.tunnel import build_pages_url
    from deployer.launch.server import connect

    server = connect(config.for_server("embedded", "deployer backend env"))
    say(f"valid while this runs: deployer backend open --on {config.on}")
    return {
        "WANDB_BASE_URL": build_pages_url(find_target(config).open_kube()),
        "WANDB_API_KEY": server.client.key,
        "WANDB_ENTITY": server.viewer.entity,
    }


def hold_open(config: Project) -> None:
    """Hold a port of this machine open that leads to the backend, until Ctrl-C."""
    from deployer.executors.kubernetes.backend.deployment import require_backend
    from deployer.executors.kubernetes.backend.tunnel import build_pages_url, open_forward

    kube = find_target(config).open_kube()
    backend = require_backend(kube, config.on)
    with open_forward(kube, backend) as forward:
        if forward.url != build_pages_url(kube):
            warn(f"{build_pages_url(kube)}, its usual address, is in use")
        client = Client(forward.url, backend.key)
        show(make_link(client, forward.url) or forward.url)
        say(f"it signs in once; for another log-in, the key: {_key_command(kube)}")
        say("open until Ctrl-C")
        threading.Event().wait()


def copy(config: Project, data: Path) -> None:
    """Bring all sweeps of the backend to a folder of this machine."""
    from deployer.executors.kubernetes.backend.deployment import ensure_backend
    from deployer.executors.kubernetes.backend.download import copy_backend

    target = find_target(config)
    kube = target.open_kube()
    target.prepare_backend(kube)
    backend = ensure_backend(kube, config, config.on)
    copied = copy_backend(kube, backend, data)
    where = f"namespace {kube.namespace}"
    say(f"copied the embedded backend of {where} to {data}: {copied.describe()}")


def _key_command(kube: Kube) -> str:
    from deployer.executors.kubernetes.backend.manifests import KEY_FIELD, KEY_SECRET

    context = f" --context {kube.context}" if kube.context else ""
    get = f"kubectl get secret {KEY_SECRET} -n {kube.namespace}{context}"
    return f"{get} -o 'jsonpath={{.data.{KEY_FIELD}}}' | base64 -d"


def _show(kube: Kube, backend: ClusterBackend, on: str, output: str) -> None:
    from deployer.executors.kubernetes.backend.examination import describe_trouble, examine_backend
    from deployer.executors.kubernetes.backend.tunnel import build_pages_url

    health = examine_backend(kube, backend)
    if output == "json":
        told = {"url": backend.url, "namespace": backend.namespace, "pod": backend.pod}
        pages = build_pages_url(kube)
        show_json({**told, "pages": pages, "running": backend.ready, "health": health})
        return
    words = {Health.READY: "running", Health.AWAY: "not ready"}
    show(f"{words.get(health, str(health))}: {backend.url} (for agents)")
    show(f"pages: {build_pages_url(kube)} while this runs: deployer backend open --on {on}")
    show(f"key: {_key_command(kube)}")
    if trouble := describe_trouble(kube, backend, health):
        say(f"{trouble.message}\nhint: {trouble.hint}")
