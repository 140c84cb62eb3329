"""`up` is watched past the end of what it logged in with: a token, a certificate, a tokenFile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.wandb_api.server import Server
from tests.cluster.bed import SECTION, Bed, make_bed
from tests.cluster.cluster import Cluster
from tests.cluster.tenants import make_account, make_tenant

pytestmark = [pytest.mark.kube, pytest.mark.full, pytest.mark.limit(400)]

LIFE_SECONDS = 60
PLUGIN = """#!/bin/sh
echo run >> "$0.runs"
exec cat "$0.json"
"""


def bind_token(cluster: Cluster, namespace: str, name: str) -> str:
    """Return a token of the account `me` that ends with the Secret of this name."""
    cluster.kubectl("create", "secret", "generic", name, "-n", namespace)
    bound = ("--bound-object-kind", "Secret", "--bound-object-name", name)
    return cluster.kubectl("create", "token", "me", "-n", namespace, *bound).strip()


def issue_certificate(cluster: Cluster, ends_at: datetime) -> dict[str, str]:
    """Return a client certificate of an administrator with its key, for an ExecCredential."""
    leaf = cluster.pki.authority.issue_cert(
        "nobody.invalid",
        common_name="admin",
        organization_name="system:masters",
        not_after=ends_at,
    )
    return {
        "clientCertificateData": leaf.cert_chain_pems[0].bytes().decode(),
        "clientKeyData": leaf.private_key_pem.bytes().decode(),
    }


def write_answer(plugin: Path, status: dict[str, str], ends_at: datetime) -> None:
    """Have the program print this from now on."""
    answer = {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "status": {**status, "expirationTimestamp": ends_at.strftime("%Y-%m-%dT%H:%M:%SZ")},
    }
    draft = plugin.with_name("draft")
    draft.write_text(json.dumps(answer))
    draft.replace(plugin.with_name("plugin.json"))


@pytest.fixture
def bed(cluster: Cluster, namespace: str, server: Server, tmp_path: Path) -> Bed:
    kubeconfig = make_tenant(cluster, namespace)
    return make_bed(cluster, namespace, kubeconfig, server, tmp_path / "project")


@pytest.mark.parametrize("kind", ["token", "certificate", "tokenFile"])
def test_a_sweep_outlives_the_credentials_of_its_watcher(
    bed: Bed, cluster: Cluster, namespace: str, tmp_path: Path, kind: str
) -> None:
    content = yaml.safe_load(make_account(cluster, namespace, "me", tmp_path).read_text())
    plugin, token_file = tmp_path / "plugin", tmp_path / "token"
    plugin.write_text(PLUGIN)
    plugin.chmod(0o755)
    ends_at = datetime.now(UTC) + timedelta(seconds=LIFE_SECONDS)
    later = ends_at + timedelta(hours=1)
    user: dict[str, Any] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": "./plugin",
            "interactiveMode": "Never",
        }
    }
    if kind == "certificate":
        write_answer(plugin, issue_certificate(cluster, ends_at), ends_at)
    elif kind == "token":
        write_answer(plugin, {"token": bind_token(cluster, namespace, "first")}, ends_at)
    else:
        token_file.write_text(bind_token(cluster, namespace, "first"))
        user = {"tokenFile": "token"}
    content["users"] = [{"name": "me", "user": user}]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(content))
    sweep = {
        "program": "train.py",
        "project": "expiry",
        "method": "grid",
        "metric": {"name": "loss", "goal": "minimize"},
        "parameters": {"lr": {"values": [0.1, 0.2]}, "seconds": {"value": 60}},
    }
    (bed.folder / "sweep.yaml").write_text(yaml.safe_dump(sweep))
    section = {**SECTION, "namespace": namespace}
    settings = {"on": "kubernetes", "replicas": 1, "kubernetes": section}
    (bed.folder / "deployer.yaml").write_text(yaml.safe_dump(settings))
    named = {
        "KUBECONFIG": str(kubeconfig),
        "WANDB_BASE_URL": bed.server.url,
        "WANDB_API_KEY": bed.server.client.key,
    }
    watched = subprocess.Popen(
        [sys.executable, "-m", "deployer", "up", "sweep.yaml", "--plain"],
        cwd=bed.folder,
        env={**os.environ, **named},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    time.sleep(LIFE_SECONDS / 2)
    if kind == "certificate":
        write_answer(plugin, issue_certificate(cluster, later), later)
    else:
        newer = bind_token(cluster, namespace, "second")
        write_answer(plugin, {"token": newer}, later)
        token_file.write_text(newer)
        cluster.kubectl("delete", "secret", "first", "-n", namespace)
    said, _ = watched.communicate(timeout=300)
    assert watched.returncode == 0, said
    assert "2/2 configurations finished, 0 duplicates, 0 lost" in said
    if kind != "tokenFile":
        assert len((tmp_path / "plugin.runs").read_text().splitlines()) == 2
