"""`deployer secret`, `drivers` and `rights`: a cluster's contents other than sweeps."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deployer.agent.addresses import CLOUD_URL
from deployer.cli.output.live import showing_busy
from deployer.cli.output.render import Aside, Table, say, show
from deployer.cli.shell.call import ALL_BUT_LOG, FORMAT, SERVER, App, Call
from deployer.config.project import Project
from deployer.errors import ConfigError, WandbError
from deployer.executors.kubernetes.diagnose.rights import Role, load_role
from deployer.executors.registry import find_executor
from deployer.wandb_api.client import Client
from deployer.wandb_api.operations import get_viewer
from deployer.wandb_api.server import Server

if TYPE_CHECKING:
    from deployer.executors.kubernetes.gpu_nodes import NodeGpus
    from deployer.kube.client import Kube


# The cluster of a command without a sweep: the kubeconfig's, or the one on GKE.

COLUMNS = ("NODE", "PRODUCT", "RESOURCE", "ALLOCATABLE", "IN-USE", "KIND")
WAIT_SECONDS = 600.0  # for GPUs to become available


def open_client(config: Project) -> Kube:
    """Open the cluster; raises ConfigError, CloudError."""
    executor = find_executor(config)
    if executor.backend:
        return executor.backend.kube
    from deployer.executors.kubernetes.manifest_builder import open_kubeconfig

    return open_kubeconfig(config)


# `deployer secret`: the W&B key in the cluster, as the Secret `wandb-secret`.

secret_app = App("Keep the W&B key in the cluster.")

KeyStdinOption = Annotated[
    bool,
    typer.Option("--key-stdin", help="Read the key from stdin; default: find it as `wandb` does."),
]


@secret_app.command("set", without=("entity", "project"))
def set_(call: Call, key_stdin: KeyStdinOption = False) -> None:
    """Create the Secret, or replace its key, from stdin, the environment or netrc.

    Running agents keep the old key; the command prints how to replace them.
    """
    from deployer.executors.kubernetes.key_rotation import rotate_secret
    from deployer.executors.kubernetes.keys import get_key, make_secret

    config = _read_config(call)
    kube = open_client(config)
    key = _read_key() if key_stdin else config.key or get_key(kube) or config.require_key()
    source = "stdin" if key_stdin else config.key_source
    viewer = get_viewer(Client(config.wandb, key, source))
    owner = viewer.name or viewer.entity
    names, state, said = "wandb-secret", "created", f"created with the key of {owner}"
    agents: Mapping[str, Sequence[str]] = {}
    if not make_secret(kube, key, config.wandb):
        done = rotate_secret(kube, key, config.wandb, lambda held: _is_of(config, held, owner))
        state, said = "there", f"already has the key of {owner}"
        if done.secrets:
            names, state = ", ".join(done.secrets), "rotated"
            said, agents = f"now has the key of {owner}", done.agents
    say(f"Secret {names} in namespace {kube.namespace}: {said}")
    for line in _list_replacements(kube, agents):
        say(line)
    _show_state(call, kube.namespace, state)


@secret_app.command("show", without=("entity", "project"))
def show_(call: Call) -> None:
    """Show the Secret without its key."""
    from deployer.executors.kubernetes.keys import describe_secret

    config = call.read()
    found = describe_secret(open_client(config), config.cluster_options)
    lines = (f"{name.replace('_', ' ')}: {value}" for name, value in vars(found).items())
    call.emit(found, *lines)


@secret_app.command(without=("entity", "project"))
def delete(call: Call) -> None:
    """Delete the Secret if `deployer` created it."""
    from deployer.executors.kubernetes.keys import delete_secret

    kube = open_client(call.read())
    deleted = delete_secret(kube)
    done = "deleted" if deleted else "not found"
    say(f"Secret wandb-secret in namespace {kube.namespace}: {done}")
    _show_state(call, kube.namespace, "deleted" if deleted else "missing")


def _show_state(call: Call, namespace: str, state: str) -> None:
    call.emit({"secret": "wandb-secret", "namespace": namespace, "state": state})


def _list_replacements(kube: Kube, agents: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the commands that replace agents, given by sweep; empty without agents."""
    if agents:
        yield "running agents keep their old key; to replace them after their run:"
    where = f"-n {kube.namespace}" + (f" --context {quote(kube.context)}" if kube.context else "")
    for path, names in agents.items():
        words = " ".join(f"--agent {name}" for name in names)
        yield f"  deployer agents drain {path} {words} {where}"
        yield f"  deployer agents up {path} --replicas {len(names)} {where}"


def _read_config(call: Call) -> Project:
    config = call.read()
    if config.embedded:
        raise ConfigError(
            "deployer secret",
            "the embedded backend gives each agent its own key",
            f"name a W&B server: --wandb {CLOUD_URL}",
        )
    return config


def _is_of(config: Project, key: str, owner: str) -> bool:
    """Return True if a key in the cluster is this user's; agents' own keys belong to no user."""
    client = Client(config.wandb, key, "the cluster")
    try:
        viewer = get_viewer(client)
        server = Server(client, viewer, embedded=False)
        return not server.extended and (viewer.name or viewer.entity) == owner
    except WandbError:
        return False


def _read_key() -> str:
    key = sys.stdin.readline().strip()
    if not key:
        hint = "deployer secret set --key-stdin <FILE"
        raise ConfigError("--key-stdin", "stdin has no key", hint)
    return key


# `deployer drivers`: the GPU driver and the device plugin on a cluster's nodes.

drivers_app = App("GPU drivers of a cluster's nodes.")

DistributionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--distribution",
        metavar="NAME",
        help="cos or ubuntu: install in advance for a GKE pool without nodes.",
    ),
]
DevicePluginOption = Annotated[
    bool,
    typer.Option("--device-plugin", help="Install NVIDIA's device plugin, for on-prem machines."),
]
NodeSelectorOption = Annotated[
    list[str] | None,
    typer.Option(
        "--node-selector",
        metavar="NAME=VALUE",
        help="NAME=VALUE: install the device plugin on these nodes.",
    ),
]


@drivers_app.command(without=SERVER)
def status(call: Call) -> None:
    """Show each node with GPUs: product, GPUs available and in use; a label if it counts none."""
    from deployer.executors.kubernetes.gpu_nodes import (
        describe_dra,
        list_served,
        survey_nodes,
    )

    kube = open_client(call.read())
    survey, served = survey_nodes(kube), describe_dra(list_served(kube))
    notes = [f"node {node.name} {node.obstacle}" for node in survey.gpus if node.obstacle]
    if not survey.complete:
        said = "you may not list pods of other namespaces"
        notes.append(f"{said}: `in use` counts only namespace {kube.namespace}")
    if served or not survey.gpus:
        notes.append(served or "no node has a GPU now")
    rows = [row for node in survey.gpus for row in _build_rows(node)]
    data = {"nodes": [_describe(node) for node in survey.gpus], "notes": notes}
    call.emit(data, Table(COLUMNS, rows), *map(Aside, notes))


@drivers_app.command(without=(*SERVER, *FORMAT))
def install(
    call: Call,
    distribution: DistributionOption = None,
    device_plugin: DevicePluginOption = False,
    node_selector: NodeSelectorOption = None,
) -> None:
    """Install missing drivers, if you may, and wait up to ten minutes for the GPUs to appear."""
    from deployer.executors.kubernetes.gpu_drivers import (
        DEVICE_PLUGIN,
        check_device_plugin,
        ensure_drivers,
    )

    kinds = _check_kinds(distribution or [])
    parts = [pair.partition("=") for pair in node_selector or ()]
    if any(not name or not equals for name, equals, _ in parts):
        raise ConfigError("--node-selector", "is not NAME=VALUE", "--node-selector gpu=yes")
    selector = {name: value for name, _, value in parts}
    kube = open_client(call.read())
    if device_plugin:
        check_device_plugin(kube)
        kinds = (*kinds, DEVICE_PLUGIN)
    with showing_busy():
        ensure_drivers(kube, kinds, selector, wait_seconds=WAIT_SECONDS)


@drivers_app.command(without=(*SERVER, *FORMAT))
def remove(call: Call) -> None:
    """Delete deployer's DaemonSets; a loaded driver stays until its node is deleted."""
    from deployer.executors.kubernetes.gpu_drivers import remove_drivers

    kube = open_client(call.read())
    if not remove_drivers(kube):
        say("found nothing that deployer installed")


def _build_rows(node: NodeGpus) -> list[tuple[object, ...]]:
    if not node.resources:
        return [(node.name, node.product, "none yet", None, None, f"label {node.label}")]
    return [
        (node.name, node.product, one.name, one.allocatable, one.in_use, one.kind)
        for one in node.resources
    ]


def _describe(node: NodeGpus) -> dict[str, Any]:
    names = ("name", "product", "label", "obstacle", "resources")
    return {name: getattr(node, name) for name in names}


def _check_kinds(kinds: list[str]) -> tuple[str, ...]:
    from deployer.executors.kubernetes.gpu_drivers import DISTRIBUTIONS

    wrong = [kind for kind in kinds if kind not in DISTRIBUTIONS]
    if wrong:
        said = f"'{wrong[0]}' is not a distribution"
        raise ConfigError("--distribution", said, f"one of: {', '.join(DISTRIBUTIONS)}")
    return tuple(kinds)


# `deployer rights`: the Roles for an administrator to grant, in kubectl's format.

rights_app = App()


@rights_app.command(without=ALL_BUT_LOG)
def rights(
    role: Annotated[
        Role, typer.Argument(metavar="ROLE", help="agents, backend, data or administrator.")
    ] = Role.AGENTS,
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="Also bind the Role to this user.")
    ] = "",
) -> None:
    """Print the smallest Role that a user needs in a namespace; contacts nothing.

    Every user needs `agents`. `backend` is for an embedded backend in the cluster, `data` for
    `deployer data`, and `administrator` for people who manage nodes. An administrator grants it:
    `deployer rights agents --user NAME | kubectl apply -n NAMESPACE -f -`.
    """
    show(load_role(role, user).rstrip())
