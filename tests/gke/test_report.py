"""`deployer report` of a sweep whose cluster is deleted: all but the cost is there."""

from __future__ import annotations

import json

from tests.backend.client import Client
from tests.browser.sweeps import make_sweep
from tests.conftest import ServedBackend
from tests.gke.cloud import Cloud
from tests.gke.commands import Machine
from tests.gke.rooms import NAME

CONFIG = "on: gke\ngke: cluster.yaml\nkubernetes: {image: registry.example/trainer:1}\n"


def test_a_report_is_written_when_the_cluster_is_gone(
    cloud: Cloud, machine: Machine, backend: ServedBackend
) -> None:
    client = Client.of(backend, "gone")
    sweep = make_sweep(client, 2)
    wandb = f"wandb: {json.dumps(client.url)}\n"
    (machine.folder / "deployer.yaml").write_text(CONFIG + wandb)
    (machine.folder / "home").mkdir()
    login = f"default login user password {client.key}\n"
    (machine.folder / "home" / ".netrc").write_text(login)
    out, err = machine.run("report", f"{client.entity}/{client.project}/{sweep}")
    assert "## Ranking" in out
    assert f"no cost: there is no cluster {NAME}" in err
    assert cloud.changes == ()
