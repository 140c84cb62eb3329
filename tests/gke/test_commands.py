"""`deployer gke` and `deployer orphans` as they are typed: what they print and change."""

from __future__ import annotations

import json
import math
import re
import signal
from pathlib import Path

import pytest
import yaml

from deployer.__main__ import run
from tests.gke.cloud import PROJECT, Cloud
from tests.gke.cloud_faults import internal, old_stockout, permission, quota, stockout
from tests.gke.commands import Machine
from tests.gke.rooms import FIRST, NAME, SECOND, write_spec
from tests.gke.rooms import SPEC as SPEC_TEXT

SPEC = "cluster.yaml"
PRICE = "$PRICE"
IDLE = f"{PRICE} an hour without agents: deployer gke down {SPEC}"
UP = ("gke", "up", SPEC)
DOWN = ("gke", "down", SPEC, "--yes")


def test_a_cluster_is_made_listed_and_removed(cloud: Cloud, machine: Machine) -> None:
    """The price comes first; stdout carries the result, stderr the rest; a second up is silent."""
    cloud.set_operation_seconds(0.3)
    out, err = machine.run(*UP, "-o", "json")
    made = json.loads(out)
    assert (made["name"], made["location"], made["ours"]) == (NAME, FIRST, True)
    lines = err.splitlines()
    assert "an hour" in lines[0]
    progress = rf"creating cluster {NAME} in {FIRST}: \d+ s, cluster "
    assert any(re.match(progress, line) for line in lines)
    assert lines[-1].startswith(f"creating cluster {NAME} in {FIRST}: done after ")
    out, err = machine.run(*UP)
    assert out.startswith(f"cluster {NAME} in {FIRST}, project {PROJECT}: RUNNING")
    assert "creating" not in err
    assert cloud.changes == ("CreateCluster",)
    listed = json.loads(machine.run("gke", "list", SPEC, "-o", "json")[0])
    assert listed == [made]
    err = machine.run(*DOWN)[1]
    gone = "no cluster, no disk, no load balancer"
    assert f"no leftovers of {NAME} in project {PROJECT}: {gone}" in err
    assert cloud.inventory().empty
    assert json.loads(machine.run("gke", "list", SPEC, "-o", "json")[0]) == []


def test_plan_says_what_ends_by_itself_and_what_a_month_costs(
    cloud: Cloud,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before anything is contacted; the disk with results goes on longest."""
    write_spec(tmp_path)
    (tmp_path / "train.py").write_text("import wandb\n")
    parameters = {"lr": {"values": [1, 2]}}
    sweep = {"program": "train.py", "method": "grid", "parameters": parameters}
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(sweep))
    config = "on: gke\ngke: cluster.yaml\nkubernetes: {image: registry.example/trainer:1}\n"
    (tmp_path / "deployer.yaml").write_text(config)
    monkeypatch.chdir(tmp_path)
    assert run(["plan", "sweep.yaml", "--max-time", "6h", "--no-check"]) == 0
    err = capsys.readouterr().err
    assert "ends automatically: agents after 6 h 00 min, GPU nodes after 6 h 30 min\n" in err
    assert re.search(
        r"continues until `deployer gke down`: the cluster's fee and its system pool, "
        r"\$0\.\d\d an hour, about \$1\d\d a month\n"
        r"continues until its results are deleted: the embedded backend's disk, \$1\.00 a month\n",
        err,
    )
    assert cloud.calls == ()


def test_the_price_is_said_again_if_the_first_location_has_no_room(
    cloud: Cloud, machine: Machine
) -> None:
    """The list shows the cluster where it is."""
    cloud.set_operation_seconds(0.05)
    cloud.fail("CreateCluster", old_stockout(FIRST), at=FIRST)
    assert "obtained: gpu-1, nvidia-tesla-t4: $" in machine.run(*UP)[1]
    shown = machine.run("gke", "list", SPEC)[0]
    assert SECOND in shown
    assert "gpu-1 RUNNING (0 to " in shown


NOWHERE = {
    "current-context": "x",
    "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:9"}}],
    "users": [{"name": "x", "user": {}}],
}
GOES_ON = f"cluster {NAME} in {FIRST} is PROVISIONING, still in progress: {IDLE}"
KEPT = f"cluster {NAME} in {FIRST} is RUNNING: {IDLE}"
BROKEN = f"cluster {NAME} in {FIRST} is ERROR: {IDLE}"
POOL = f"its pool gpu-1, nvidia-tesla-t4: {PRICE} an hour for each of its nodes"


def list_existing(err: str) -> list[str]:
    """Return what is said of a cluster and its pools, without the figures."""
    lines = re.sub(r"\$[0-9.]+", PRICE, err).splitlines()
    return [
        line for line in lines if line.startswith((f"cluster {NAME} in {FIRST} is ", "its pool"))
    ]


@pytest.mark.full
def test_ctrl_c_says_what_goes_on(cloud: Cloud, machine: Machine) -> None:
    """130; Google goes on, and the next `up` goes on with it."""
    cloud.set_operation_seconds(5.0)
    cloud.kill_client_at(1, "after", "GetOperation", by=signal.SIGINT)
    err = machine.run(*UP, code=130)[1]
    assert list_existing(err) == [GOES_ON, POOL]
    cloud.spare_clients()
    assert list_existing(machine.run(*UP)[1]) == []
    assert cloud.changes == ("CreateCluster",)


@pytest.mark.full
def test_a_failure_says_what_exists_and_costs(cloud: Cloud, machine: Machine) -> None:
    """Of a cluster whose GPUs are sold out, of a broken one; where the cloud is silent, that."""
    cloud.set_operation_seconds(0.05)
    cloud.fail("CreateCluster", stockout(FIRST).in_operation(keeps_cluster=True))
    cloud.fail("CreateNodePool", old_stockout(FIRST), times=math.inf)
    assert list_existing(machine.run(*UP, code=1)[1]) == [KEPT]
    cloud.fail("CreateNodePool", permission())
    cloud.fail("ListClusters", permission("container.clusters.list"), nth=3, times=math.inf)
    err = machine.run(*UP, code=1)[1]
    assert (
        "could not check whether a cluster made by deployer still exists: cannot list clusters"
        in err
    )
    cloud.heal()
    machine.run(*DOWN)
    cloud.fail("CreateCluster", internal().in_operation())
    err = machine.run(*UP, code=1)[1]
    assert [line for line in list_existing(err) if "pool" not in line] == [BROKEN]


@pytest.mark.full
def test_a_sweep_that_fails_says_what_its_cluster_costs(cloud: Cloud, machine: Machine) -> None:
    """Its Kubernetes does not answer. That GPUs are spot is said before anything is made."""
    cloud.set_operation_seconds(0.05)
    spot = SPEC_TEXT.replace("n1-standard-8", "n1-standard-8\n    spot: true")
    (machine.folder / SPEC).write_text(spot)
    settings = {"gke": SPEC, "kubernetes": {"image": "x", "code": "image"}}
    (machine.folder / "deployer.yaml").write_text(json.dumps(settings))
    sweep = {"program": "a.py", "method": "grid", "parameters": {"a": {"values": [1]}}}
    (machine.folder / "sweep.yaml").write_text(json.dumps(sweep))
    up = ("up", "sweep.yaml", "--on", "gke", "--plain", "--no-check")
    err = machine.run(*up, code=1)[1]
    whole = [line.replace(f"gke down {SPEC}", "down --cluster --on gke") for line in (KEPT, POOL)]
    assert [line.replace(" (spot)", "") for line in list_existing(err)] == whole
    assert 0 < err.index("agents run on spot nodes (gpu-1 of") < err.index("creating cluster")
    assert list_existing(machine.run(*up, "--project", "a/b", code=2)[1]) == []


def test_a_refusal_is_an_error_with_a_remedy(cloud: Cloud, machine: Machine) -> None:
    """1; Google's sentences, and which quota to ask for, and where."""
    cloud.fail("CreateCluster", quota(), at=FIRST, times=math.inf)
    cloud.fail("CreateCluster", old_stockout(SECOND), at=SECOND, times=math.inf)
    out, err = machine.run(*UP, code=1)
    assert out == ""
    assert f"error: no capacity for cluster {NAME}" in err
    assert err.count("Insufficient regional quota to satisfy request: resource") == 1
    hint = err.splitlines()[-1]
    assert hint.startswith("hint: ask for more NVIDIA_T4_GPUS in us-central1: https://console.")
    assert cloud.inventory().empty
    assert list_existing(err) == []


def test_a_foreign_cluster_is_an_error(cloud: Cloud, machine: Machine) -> None:
    """`up` refuses, `down` leaves it."""
    cloud.add_foreign_cluster(NAME, FIRST)
    err = machine.run(*UP, code=1)[1]
    assert f"error: cluster {NAME} in {FIRST} is not ours" in err
    assert list_existing(err) == []
    assert "stays: it lacks deployer's labels" in machine.run(*DOWN)[1]
    assert cloud.changes == ()


def test_orphans_are_found_without_a_specification(cloud: Cloud, machine: Machine) -> None:
    """A cluster that cannot be asked what it holds stays unless it is named; old disks go."""
    cloud.set_operation_seconds(0.05)
    machine.run(*UP)
    owner = json.loads(machine.run("gke", "list", SPEC, "-o", "json")[0])[0]["owner"]
    labels = {"managed-by": "deployer", "deployer-cluster": "older", "deployer-owner": owner}
    cloud.add_disk("pvc-1", FIRST, cluster="older", labels=labels, age_seconds=7200)
    (machine.folder / SPEC).unlink()
    before = cloud.changes
    old = ("orphans", "--min-age", "0s")
    found = json.loads(machine.run(*old, "-o", "json", code=1)[0])
    assert [(one["cluster"], one["use"]) for one in found["cloud"]] == [
        ("older", "left over"),
        (NAME, "not checked"),
    ]
    assert cloud.changes == before
    assert f"{NAME} stays (young)" in machine.run("orphans", "--yes")[1]
    assert cloud.inventory().disks == ()
    err = machine.run(*old, "--yes", code=1)[1]
    assert f"{NAME}: not checked: cannot list Pod in any namespace" in err
    assert f"{NAME} stays (not checked); deployer orphans {NAME} removes it anyway" in err
    assert cloud.inventory().clusters == (f"{FIRST}/{NAME}",)
    machine.run("orphans", NAME, "--yes")
    assert cloud.inventory().empty
    out, err = machine.run("orphans")
    assert out == "no leftovers\n"
    assert "no kubeconfig found: Kubernetes was not searched" in err


def test_a_cluster_that_does_not_answer_is_not_checked(cloud: Cloud, machine: Machine) -> None:
    """The kubeconfig's; nor can Google be asked without the account that is named."""
    config = machine.folder / "home" / ".kube" / "config"
    config.parent.mkdir(parents=True)
    for content in (yaml.safe_dump(NOWHERE), "current-context: gone\n"):
        config.write_text(content)
        out, err = machine.run("orphans", "--yes", code=1)
        assert out == ""
        assert "not checked: the kubeconfig's cluster: " in err
    found = json.loads(machine.run("orphans", "-o", "json", code=1)[0])
    assert found["kubernetes"] == []
    assert found["not_checked"] in err
    (cloud.folder / "account.json").unlink()
    err = machine.run("orphans", code=1)[1]
    assert "not checked: the kubeconfig's cluster: " in err
    assert "error: cannot log in to Google's cloud" in err


@pytest.mark.parametrize("kubernetes", [True, False], ids=["with kubeconfig", "without"])
def test_a_cloud_that_cannot_be_listed_is_not_checked(
    cloud: Cloud, machine: Machine, *, kubernetes: bool
) -> None:
    """What a zone without an answer holds is not known, nor what may not be listed."""
    if kubernetes:
        config = machine.folder / "home" / ".kube" / "config"
        config.parent.mkdir(parents=True)
        config.write_text(yaml.safe_dump(NOWHERE))
    cloud.fail("disks.aggregatedList", permission("compute.disks.list"), times=math.inf)
    out, err = machine.run("orphans", "--yes", code=1)
    assert f"not checked: Google's project {PROJECT}: cannot list disks: " in err
    assert "hint: you need the role Compute Admin" in err
    assert "no leftovers" not in out
    cloud.heal()
    cloud.estate.silent_zones = (FIRST,)
    assert f"cannot list disks: {FIRST} does not answer" in machine.run("orphans", code=1)[1]


def test_no_credentials_is_an_error(cloud: Cloud, machine: Machine) -> None:
    """The file of the account is gone."""
    (cloud.folder / "account.json").unlink()
    err = machine.run(*UP, code=1)[1]
    assert "error: cannot log in to Google's cloud" in err
    assert "hint: gcloud auth application-default login" in err
    assert cloud.calls == ()
