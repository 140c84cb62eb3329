"""`deployer secret`: the W&B key in the cluster, as the Secret `wandb-secret`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from deployer.agent.addresses import CLOUD_URL
from deployer.cli.cluster.target_cluster import open_client
from deployer.cli.output.render import say
from deployer.cli.shell.call import App, Call
from deployer.config.project import Project
from deployer.errors import ConfigError, WandbError
from deployer.wandb_api.client import Client
from deployer.wandb_api.operations import get_viewer
from deployer.wandb_api.server import Server

if TYPE_CHECKING:
    from deployer.kube.client import Kube

app = App("Keep the W&B key in the cluster.")

KeyStdinOption = Annotated[
    bool,
    typer.Option("--key-stdin", help="Read the key from stdin; default: find it as `wandb` does."),
]


@app.command("set", without=("entity", "project"))
def set_(call: Call, key_stdin: KeyStdinOption = False) -> None:
    """Create the Secret, or replace its key, from stdin, the environment or netrc.

    Agents at work keep the old key; the command prints how to replace them.
    """
    from deployer.executors.kubernetes.keys.key_rotation import rotate_secret
    from deployer.executors.kubernetes.keys.key_secret import get_key, make_secret

    config = _read_config(call)
    kube = open_client(config)
    key = _read_key() if key_stdin else config.key or get_key(kube) or config.require_key()
    owner = _check_key(config, key, "stdin" if key_stdin else config.key_source)
    names, state, said = "wandb-secret", "created", f"created, the key of {owner}"
    agents: Mapping[str, Sequence[str]] = {}
    if not make_secret(kube, key, config.wandb):
        done = rotate_secret(kube, key, config.wandb, lambda held: _is_of(config, held, owner))
        state, said = "there", f"has the key of {owner} already"
        if done.secrets:
            names, state = ", ".join(done.secrets), "rotated"
            said, agents = f"now the key of {owner}", done.agents
    say(f"Secret {names} in namespace {kube.namespace}: {said}")
    for line in _list_replacements(kube, agents):
        say(line)
    _show_state(call, kube.namespace, state)


@app.command("show", without=("entity", "project"))
def show_(call: Call) -> None:
    """Show the Secret without its key."""
    from deployer.executors.kubernetes.keys.key_secret import describe_secret

    config = call.read()
    found = describe_secret(open_client(config), config.cluster_options)
    lines = (f"{name.replace('_', ' ')}: {value}" for name, value in vars(found).items())
    call.emit(found, *lines)


@app.command(without=("entity", "project"))
def delete(call: Call) -> None:
    """Delete the Secret if `deployer` created it."""
    from deployer.executors.kubernetes.keys.key_secret import delete_secret

    kube = open_client(call.read())
    deleted = delete_secret(kube)
    done = "deleted" if deleted else "not there"
    say(f"Secret wandb-secret in namespace {kube.namespace}: {done}")
    _show_state(call, kube.namespace, "deleted" if deleted else "missing")


def _show_state(call: Call, namespace: str, state: str) -> None:
    call.emit({"secret": "wandb-secret", "namespace": namespace, "state": state})


def _list_replacements(kube: Kube, agents: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the commands that replace agents, which are named by sweep; nothing without agents."""
    if agents:
        yield "agents at work keep the key that they began with; to replace them after their run:"
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


def _check_key(config: Project, key: str, source: str) -> str:
    """Return whose key it is, as the server says. Raises WandbError."""
    viewer = get_viewer(Client(config.wandb, key, source))
    return viewer.name or viewer.entity


def _is_of(config: Project, key: str, owner: str) -> bool:
    """Tell whether a key in the cluster is this user's; agents' own keys belong to no user."""
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
