"""The W&B key in the cluster: checked before it is kept, never shown, deleted only if ours."""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from deployer.backend.data_folder import write_key
from deployer.backend.db.accounts import add_key, replace_keys
from deployer.backend.db.store import DATABASE, Database
from deployer.config.project import EMBEDDED
from deployer.executors.kubernetes.key_rotation import rotate_secret
from deployer.executors.kubernetes.keys import name_secret
from deployer.executors.kubernetes.manifests.build import build_secret
from deployer.kube.client import Kube
from deployer.kube.objects import SECRET
from deployer.model import SweepPath
from deployer.wandb_api.client import Client
from deployer.wandb_api.server import Server
from tests.cluster.bed import (
    Bed,
    build_executor,
    build_section,
    make_bed,
    open_client,
    serve_for_pods,
)
from tests.cluster.cluster import Cluster
from tests.cluster.tenants import make_tenant
from tests.conftest import FOREIGN_KEY, ServedBackend
from tests.forked import run_forked


def run_deployer(
    folder: Path, kubeconfig: Path, *arguments: str, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with these variables added to the environment."""
    told = {**os.environ, "KUBECONFIG": str(kubeconfig), **environment}
    return run_forked(arguments, folder, told, stdin)


@dataclass(frozen=True)
class Desk:
    """A shell in a project folder, with a kubeconfig and a W&B server."""

    kubeconfig: Path
    backend: ServedBackend
    folder: Path
    kube: Kube

    def deployer(
        self, *arguments: str, stdin: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `deployer secret …`."""
        told = {"DEPLOYER_WANDB": self.backend.url, **environment}
        return run_deployer(self.folder, self.kubeconfig, "secret", *arguments, stdin=stdin, **told)

    def stored_key(self) -> str | None:
        found = self.kube.get(SECRET, "wandb-secret")
        return base64.b64decode(found["data"]["secret"]).decode() if found else None


@pytest.fixture
def desk(cluster: Cluster, namespace: str, backend: ServedBackend, tmp_path: Path) -> Desk:
    kubeconfig = make_tenant(cluster, namespace)
    return Desk(kubeconfig, backend, tmp_path, open_client(kubeconfig, namespace))


def test_set_show_delete(desk: Desk) -> None:
    key = desk.backend.key
    made = desk.deployer("set", WANDB_API_KEY=key)
    assert made.returncode == 0, made.stderr
    assert made.stderr.endswith(": created with the key of tester\n")
    assert desk.stored_key() == key
    again = desk.deployer("set", "--key-stdin", stdin=f"{key}\n")
    assert again.stderr.endswith(": already has the key of tester\n")
    existing = desk.deployer("set")
    assert existing.stderr.endswith(": already has the key of tester\n")

    shown = desk.deployer("show", "-o", "json")
    told = json.loads(shown.stdout)
    assert told["masked_key"] == f"…{key[-4:]} ({len(key)} characters)"
    assert told["base_url"] == desk.backend.url
    assert told["mine"] is True
    assert desk.deployer("set", WANDB_API_KEY=key).returncode == 0
    deleted = desk.deployer("delete")
    assert deleted.stderr.endswith(": deleted\n")
    assert desk.stored_key() is None
    gone = desk.deployer("show")
    assert gone.returncode == 1
    assert "hint: deployer secret set" in gone.stderr
    everything = "".join(
        one.stdout + one.stderr for one in (made, again, existing, shown, deleted, gone)
    )
    assert key not in everything


@pytest.mark.full
def test_key_from_netrc_and_a_wrong_one(desk: Desk, home: Path) -> None:
    wrong = desk.deployer("set", WANDB_API_KEY=FOREIGN_KEY)
    assert wrong.returncode == 1
    assert "key" in wrong.stderr
    assert FOREIGN_KEY not in wrong.stderr
    assert desk.stored_key() is None
    host = desk.backend.url.removeprefix("http://")
    (home / ".netrc").write_text(f"machine {host}\n login user\n password {desk.backend.key}\n")
    assert desk.deployer("set").returncode == 0
    assert desk.stored_key() == desk.backend.key
    nothing = desk.deployer("set", "--key-stdin")
    assert nothing.returncode == 2
    assert "stdin has no key" in nothing.stderr
    assert "hint: deployer secret set --key-stdin <FILE" in nothing.stderr


def test_somebody_elses_secret_stays(desk: Desk, cluster: Cluster) -> None:
    namespace = desk.kube.namespace
    cluster.kubectl(
        *("create", "secret", "generic", "wandb-secret", "-n", namespace),
        f"--from-literal=secret={FOREIGN_KEY}",
    )
    refused = desk.deployer("set", WANDB_API_KEY=desk.backend.key)
    assert refused.returncode == 2
    assert "belongs to an unknown owner and keeps its key" in refused.stderr
    kept = desk.deployer("delete")
    assert kept.returncode == 2
    assert "belongs to an unknown owner and stays" in kept.stderr
    build_executor(desk.kube, build_section(), desk.folder).forget(None)
    assert desk.stored_key() == FOREIGN_KEY


@pytest.mark.full
def test_a_secret_made_by_hand_is_the_callers_if_it_holds_the_callers_key(
    desk: Desk, cluster: Cluster
) -> None:
    old, new = desk.backend.key, secrets.token_hex(20)
    cluster.kubectl(
        *("create", "secret", "generic", "wandb-secret", "-n", desk.kube.namespace),
        f"--from-literal=secret={old}",
    )
    done = rotate_secret(desk.kube, new, desk.backend.url, lambda held: held == old)
    assert done.secrets == ("wandb-secret",)
    assert desk.stored_key() == new


@pytest.mark.full
def test_our_secret_goes_with_everything_else(desk: Desk) -> None:
    assert desk.deployer("set", WANDB_API_KEY=desk.backend.key).returncode == 0
    executor = build_executor(desk.kube, build_section(), desk.folder)
    executor.forget("tester/other/abc")
    assert desk.stored_key() == desk.backend.key
    executor.forget(None)
    assert desk.stored_key() is None


@pytest.mark.full
def test_embedded_needs_no_secret(desk: Desk) -> None:
    told = desk.deployer("set", DEPLOYER_WANDB="embedded")
    assert told.returncode == 2
    assert "the embedded backend gives each agent its own key" in told.stderr


SHOWING_TRAINER = """
import argparse, os, time
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
with wandb.init() as run:
    print("the key ends with", os.environ["WANDB_API_KEY"][-6:], flush=True)
    for step in range(12):
        run.log({"loss": 1 / (step + 1)}, step=step, commit=True)
        time.sleep(0.5)
"""


def agents_with(bed: Bed, path: SweepPath, key: str) -> set[str]:
    """Return the agents that have run something with this key."""
    names = [agent.name for agent in bed.executor.list_agents(str(path))]
    lines = bed.executor.log_lines(names, follow=False)
    return {agent for agent, line in lines if line == f"the key ends with {key[-6:]}"}


@pytest.mark.full
def test_a_new_key_counts_for_new_agents(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """One agent has a copy of the key, since it began when `wandb-secret` held somebody else's."""
    kubeconfig, data = make_tenant(cluster, namespace), tmp_path / "data"
    with serve_for_pods(cluster, data, "plain") as server:
        bed = make_bed(cluster, namespace, kubeconfig, server, tmp_path / "project")
        (bed.folder / "train.py").write_text(SHOWING_TRAINER)

        def run(*arguments: str, stdin: str) -> str:
            told = {"DEPLOYER_WANDB": server.url}
            done = run_deployer(bed.folder, kubeconfig, *arguments, stdin=stdin, **told)
            assert done.returncode == 0, done.stderr
            return done.stderr

        def give(change: Callable[..., None], key: str) -> None:
            """Give the server's user a key, beside the server: a plain one manages no users."""
            store = Database(data / DATABASE)
            with store.transaction() as db:
                change(db, "tester", key, time.time())
            store.close()

        path = bed.create_sweep([number / 10 for number in range(10)])
        bed.kube.create(build_secret("wandb-secret", namespace, {"secret": FOREIGN_KEY}))
        bed.start(path, 1)
        bed.kube.delete(SECRET, "wandb-secret")
        run("secret", "set", "--key-stdin", stdin=server.client.key)
        bed.start(path, 2)
        bed.wait_for(lambda: len(agents_with(bed, path, server.client.key)) == 2, "two runs")

        key = secrets.token_hex(20)
        give(add_key, key)
        told = run("secret", "set", "--key-stdin", stdin=key)
        assert f"Secret {name_secret(str(path), bed.kube.owner)}, wandb-secret" in told
        drain, up = (line.split() for line in told.splitlines()[-2:])
        assert drain[:3] == ["deployer", "agents", "drain"]
        where = f"-n {namespace} --context {bed.kube.context}"
        assert up == f"deployer agents up {path} --replicas 2 {where}".split()
        run(*drain[1:], stdin="")
        client = Client(server.url, key, EMBEDDED)
        bed = replace(bed, server=Server(client, server.viewer, embedded=False))
        bed.start(path, 2)
        bed.wait_for(lambda: len(agents_with(bed, path, key)) == 2, "two runs with the new key")
        give(replace_keys, key)
        write_key(data, key)
        bed.wait_for(lambda: set(bed.states(path)) == {"ended"}, "the end of the sweep")
        coverage = bed.results(path).coverage
        assert (coverage.expected, coverage.finished, coverage.duplicates) == (10, 10, 0)
        assert {agent.restarts for agent in bed.executor.list_agents(str(path))} == {0}
