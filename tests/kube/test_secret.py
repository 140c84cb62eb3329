"""The W&B key in the cluster: checked before it is kept, never shown, deleted only if ours."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from deployer.cluster import KubernetesPlace
from deployer.kube import SECRET, Kube
from tests.conftest import FOREIGN_KEY, ServedBackend
from tests.kube.bed import build_section, open_door
from tests.kube.cluster import Cluster
from tests.kube.tenants import make_tenant


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
        return subprocess.run(
            [sys.executable, "-m", "deployer", "secret", *arguments],
            input=stdin,
            cwd=self.folder,
            env={
                **os.environ,
                "KUBECONFIG": str(self.kubeconfig),
                "DEPLOYER_WANDB": self.backend.url,
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=120,
        )

    def stored_key(self) -> str | None:
        found = self.kube.get(SECRET, "wandb-secret")
        return base64.b64decode(found["data"]["secret"]).decode() if found else None


@pytest.fixture
def desk(cluster: Cluster, namespace: str, backend: ServedBackend, tmp_path: Path) -> Desk:
    kubeconfig = make_tenant(cluster, namespace)
    return Desk(kubeconfig, backend, tmp_path, open_door(kubeconfig, namespace))


def test_create_show_rotate_delete(desk: Desk) -> None:
    key = desk.backend.key
    made = desk.deployer("create", WANDB_API_KEY=key)
    assert made.returncode == 0, made.stderr
    assert made.stderr.endswith(": created, the key of tester\n")
    assert desk.stored_key() == key
    again = desk.deployer("create", "--key-stdin", stdin=f"{key}\n")
    assert again.stderr.endswith(": already there, the key of tester\n")
    existing = desk.deployer("create")
    assert existing.stderr.endswith(": already there, the key of tester\n")

    shown = desk.deployer("show", "-o", "json")
    told = json.loads(shown.stdout)
    assert told["masked_key"] == f"…{key[-4:]} ({len(key)} characters)"
    assert told["base_url"] == desk.backend.url
    assert told["ours"] is True
    assert desk.deployer("rotate", WANDB_API_KEY=key).returncode == 0
    deleted = desk.deployer("delete")
    assert deleted.stderr.endswith(": deleted\n")
    assert desk.stored_key() is None
    gone = desk.deployer("show")
    assert gone.returncode == 1
    assert "hint: deployer secret create" in gone.stderr
    everything = "".join(
        one.stdout + one.stderr for one in (made, again, existing, shown, deleted, gone)
    )
    assert key not in everything


def test_key_from_netrc_and_a_wrong_one(desk: Desk, home: Path) -> None:
    wrong = desk.deployer("create", WANDB_API_KEY=FOREIGN_KEY)
    assert wrong.returncode == 1
    assert "key" in wrong.stderr
    assert FOREIGN_KEY not in wrong.stderr
    assert desk.stored_key() is None
    host = desk.backend.url.removeprefix("http://")
    (home / ".netrc").write_text(f"machine {host}\n login user\n password {desk.backend.key}\n")
    assert desk.deployer("create").returncode == 0
    assert desk.stored_key() == desk.backend.key
    nothing = desk.deployer("create", "--key-stdin")
    assert nothing.returncode == 2
    assert "there is no key on stdin" in nothing.stderr


def test_somebody_elses_secret_stays(desk: Desk, cluster: Cluster) -> None:
    namespace = desk.kube.namespace
    cluster.kubectl(
        *("create", "secret", "generic", "wandb-secret", "-n", namespace),
        f"--from-literal=secret={FOREIGN_KEY}",
    )
    refused = desk.deployer("create", WANDB_API_KEY=desk.backend.key)
    assert refused.returncode == 2
    assert "is there and holds another key" in refused.stderr
    kept = desk.deployer("delete")
    assert kept.returncode == 2
    assert "was not made by deployer and stays" in kept.stderr
    KubernetesPlace(desk.kube, build_section(), desk.folder).forget(None)
    assert desk.stored_key() == FOREIGN_KEY
    assert desk.deployer("rotate", WANDB_API_KEY=desk.backend.key).returncode == 0
    assert desk.stored_key() == desk.backend.key


def test_our_secret_goes_with_everything_else(desk: Desk) -> None:
    assert desk.deployer("create", WANDB_API_KEY=desk.backend.key).returncode == 0
    place = KubernetesPlace(desk.kube, build_section(), desk.folder)
    place.forget("tester/other/abc")
    assert desk.stored_key() == desk.backend.key
    place.forget(None)
    assert desk.stored_key() is None


def test_embedded_needs_no_secret(desk: Desk) -> None:
    told = desk.deployer("create", DEPLOYER_WANDB="embedded")
    assert told.returncode == 2
    assert "the embedded backend gives each agent a key of its own" in told.stderr
