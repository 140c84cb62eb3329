"""The location of a command's embedded backend: a local data folder, or a cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deployer.backend.data_folder import KEY_FILE, read_key
from deployer.backend.server.daemon import (
    Health,
    LocalBackend,
    backend_status,
    start_backend,
    stop_backend,
)
from deployer.cli.output.live import showing_busy
from deployer.cli.output.render import say, show, warn
from deployer.cli.shell.call import PLACE, Call, is_sure
from deployer.config.paths import backend_folder
from deployer.errors import BackendError, ConfigError, Refusals, collect_refusals
from deployer.executors.base import BackendHost, Executor
from deployer.executors.registry import find_executor
from deployer.launch.resolution import connect
from deployer.sweeps.records import Records, SweepRecord
from deployer.wandb_api.client import Client
from deployer.wandb_api.operations import get_viewer
from deployer.wandb_api.server import Server, make_link

if TYPE_CHECKING:
    from deployer.executors.kubernetes.backend.deployment import ClusterBackend
    from deployer.kube.client import Kube
    from deployer.kube.objects import Manifest


def end_backend(kube: Kube, on: str, refusals: Refusals, *, delete_data: bool) -> None:
    """Remove the caller's backend from a cluster, with `delete_data` also its data; report it.

    If others use it, it stays, which is noted in `refusals`. Another owner's is only named.
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
    """Name the claims with the data of the caller's backend, and its known sweeps.

    Reports that a backend with other users stays. Raises KubeError.
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
    """Return a filter for records of sweeps on the backend of this cluster and namespace.

    Raises KubeError.
    """
    from deployer.executors.kubernetes.backend.deployment import NAME, build_url
    from deployer.kube.client import identify_cluster

    here = (identify_cluster(kube), build_url(NAME, kube.namespace))
    return lambda record: (record.cluster, record.base_url) == here


def _name_shared(kube: Kube, others: str) -> str:
    return f"the embedded backend in namespace {kube.namespace} stays, since {others} also uses it"


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


DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="FOLDER", help="The data folder; default: in the state folder."),
]


@dataclass(frozen=True)
class BackendState:
    """The state of a backend, as lines and as JSON, and its errors."""

    lines: tuple[str, ...]
    as_json: dict[str, Any]
    trouble: BackendError | None


@dataclass(frozen=True)
class Here:
    """The backend of a local data folder; `connect` and `open` start it if needed."""

    data: Path

    def up(self) -> BackendState:
        return self._describe(start_backend(self.data))

    def status(self) -> BackendState:
        backend = backend_status(self.data)
        if backend is None:
            said = f"no backend has used {self.data}"
            raise BackendError(said, "deployer backend up")
        return self._describe(backend)

    def down(self, _yes: bool, *, delete_data: bool) -> bool:
        if delete_data:
            raise ConfigError(
                "--delete-data", "needs a cluster", "deployer down --all --delete-data"
            )
        stopped = stop_backend(self.data)
        say("backend stopped; its data stays" if stopped else "no backend runs")
        return stopped

    def connect(self) -> Server:
        key_file = str(self.data / KEY_FILE)
        client = Client(start_backend(self.data).url, read_key(self.data), key_file, near=True)
        return Server(client, get_viewer(client), embedded=True)

    def open(self) -> None:
        _show_link(self.connect().client)

    def _describe(self, backend: LocalBackend) -> BackendState:
        word = "running" if backend.health is Health.READY else str(backend.health)
        lines = (
            f"{word if backend.running else 'stopped'}: {backend.url}",
            f"entity: {backend.entity}",
            f"data: {self.data}",
            f"key file: {self.data / KEY_FILE}",
        )
        as_json = {**vars(backend), "running": backend.running}
        return BackendState(lines, as_json, backend.describe_trouble())


@dataclass(frozen=True)
class InCluster:
    """The backend in a cluster; `connect` creates it if needed."""

    executor: Executor
    host: BackendHost

    def up(self) -> BackendState:
        """Create it, or update it to `deployer.yaml`, and wait until it is ready."""
        from deployer.executors.kubernetes.backend.deployment import ensure_backend

        host = self.host
        with showing_busy():
            host.prepare()
            backend = ensure_backend(host.kube, self.executor.project, self.executor.on, anew=True)
        return self._describe(backend)

    def status(self) -> BackendState:
        return self._describe(self._require())

    def down(self, yes: bool, *, delete_data: bool) -> bool | None:
        """Stop it, and with `delete_data` delete its data if ours; return None if it is kept.

        Asks first if others use it, or if data is deleted. Raises BackendError for another owner's
        data.
        """
        from deployer.executors.kubernetes.backend.host import list_claims, name_other_users
        from deployer.executors.kubernetes.backend.removal import list_backend

        kube = self.host.kube
        others = ", ".join(name_other_users(kube, list_backend(kube)))
        if delete_data and not all(map(kube.owns, list_claims(kube))):
            said = f"the backend's data in namespace {kube.namespace} is not yours: {others}"
            raise BackendError(said, f"deployer backend down --on {self.executor.on} only stops it")
        if others:
            say(f"the embedded backend in namespace {kube.namespace} is also used by {others}")
        question = "stop it for all users, and delete all of its sweeps?"
        question = question if delete_data else "stop it for all users?"
        if (others or delete_data) and not is_sure(question, yes):
            say("nothing was stopped")
            return None
        with collect_refusals() as refusals:
            return remove_and_tell(
                kube, self.executor.on, refusals, delete_data=delete_data, everyone=True
            )

    def connect(self) -> Server:
        return connect(
            self.executor.project.for_server("embedded", "deployer backend"), self.executor
        )

    def open(self) -> None:
        """Forward a local port to it until Ctrl-C."""
        from deployer.executors.kubernetes.backend.host import build_pages_url, open_forward

        kube, backend = self.host.kube, self._require()
        with open_forward(kube, backend) as forward:
            if forward.url != build_pages_url(kube):
                warn(f"{build_pages_url(kube)}, its usual address, is in use")
            _show_link(Client(forward.url, backend.key))
            say(f"this link signs in once; to sign in again, use the key: {_key_command(kube)}")
            say("open until Ctrl-C")
            threading.Event().wait()

    def copy(self, data: Path) -> None:
        from deployer.executors.kubernetes.backend.deployment import ensure_backend
        from deployer.executors.kubernetes.backend.host import copy_backend

        executor, kube = self.executor, self.host.kube
        self.host.prepare()
        backend = ensure_backend(kube, executor.project, executor.on)
        copied = copy_backend(kube, backend, data)
        where = f"namespace {kube.namespace}"
        say(f"copied the embedded backend of {where} to {data}: {copied.describe()}")

    def _require(self) -> ClusterBackend:
        from deployer.executors.kubernetes.backend.deployment import require_backend

        return require_backend(self.host.kube, self.executor.on)

    def _describe(self, backend: ClusterBackend) -> BackendState:
        from deployer.executors.kubernetes.backend.host import build_pages_url
        from deployer.executors.kubernetes.backend.removal import (
            describe_trouble,
            examine_backend,
        )

        kube = self.host.kube
        health, pages = examine_backend(kube, backend), build_pages_url(kube)
        word = {Health.READY: "running", Health.AWAY: "not ready"}.get(health, str(health))
        lines = (
            f"{word}: {backend.url} (for agents)",
            f"pages: {pages} while this runs: deployer backend open --on {self.executor.on}",
            f"key: {_key_command(kube)}",
        )
        as_json = {
            "url": backend.url,
            "namespace": backend.namespace,
            "pod": backend.pod,
            "pages": pages,
            "running": backend.ready,
            "health": health,
        }
        return BackendState(lines, as_json, describe_trouble(kube, backend, health))


def find_place(call: Call, data: Path | None) -> Here | InCluster:
    """Return where the backend is that `--on` and `--data` mean.

    Raises ConfigError for a data folder and a cluster at once.
    """
    executor = find_executor(call.read())
    host = executor.backend
    if host is None or (data and not any(map(call.given.get, PLACE))):
        return Here(choose_folder(data))
    if data:
        raise ConfigError("--data", "is a local folder", "leave out --data")
    return InCluster(executor, host)


def choose_folder(data: Path | None) -> Path:
    return data.expanduser().resolve() if data else backend_folder()


def _show_link(client: Client) -> None:
    show(make_link(client, client.base_url) or client.base_url)


def _key_command(kube: Kube) -> str:
    from deployer.executors.kubernetes.backend.deployment import KEY_FIELD, KEY_SECRET

    context = f" --context {kube.context}" if kube.context else ""
    get = f"kubectl get secret {KEY_SECRET} -n {kube.namespace}{context}"
    return f"{get} -o 'jsonpath={{.data.{KEY_FIELD}}}' | base64 -d"
