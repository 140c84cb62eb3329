"""What `doctor --on gke` says before there is a cluster: what Google would refuse."""

from __future__ import annotations

import json
from typing import Any

from tests.gke.cloud import Cloud
from tests.gke.cloud_faults import api_disabled, permission
from tests.gke.commands import Machine

CONFIG = "on: gke\ngke: cluster.yaml\nkubernetes: {image: registry.example/trainer:1}\n"


def examine(machine: Machine) -> tuple[int, dict[str, dict[str, Any]]]:
    code, out, _ = machine.try_run("doctor", "-o", "json")
    found = [one for one in json.loads(out)["findings"] if one["code"].startswith("c")]
    return code, {one["code"]: one for one in found}


def test_what_google_would_refuse_is_said_before_anything_is_made(
    cloud: Cloud, machine: Machine
) -> None:
    (machine.folder / "deployer.yaml").write_text(CONFIG)
    code, found = examine(machine)
    assert (code, found["cloud-quota"]["sentence"]) == (0, "quotas and machine types suffice")
    assert found["cloud"]["sentence"].startswith("not found: `up` creates it in project ")

    cloud.fail("regions.get", permission("compute.regions.get"))
    code, found = examine(machine)
    assert (code, found["cloud-quota"]["verdict"]) == (0, "unknown")
    cloud.heal()

    cloud.set_quota("GPUS_ALL_REGIONS", 0)
    code, found = examine(machine)
    assert (code, found["cloud-quota"]["verdict"]) == (1, "wrong")
    assert found["cloud-quota"]["sentence"].startswith("quota GPUS_ALL_REGIONS: 1 needed for ")
    assert "console.cloud.google.com/iam-admin/quotas" in found["cloud-quota"]["remedy"]

    cloud.fail("ListClusters", api_disabled())
    code, found = examine(machine)
    assert (code, set(found)) == (1, {"cluster"})
    assert "gcloud services enable container.googleapis.com" in found["cluster"]["remedy"]
    assert cloud.changes == ()
