"""What is another owner's, what others use, what is young and what holds results stays."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.gke.cloud import Cloud
from tests.gke.cloud_faults import permission
from tests.gke.commands import Machine
from tests.gke.odd_kubernetes import list_foreign, serve_odd_kubernetes
from tests.gke.rooms import FIRST, NAME, SECOND
from tests.gke.test_teardown import ME

SPEC = "cluster.yaml"
UP = ("gke", "up", SPEC)
DOWN = ("gke", "down", SPEC)
OLD = ("orphans", "--min-age", "0s", "--yes")
COLLEAGUE = {"managed-by": "deployer", "deployer-owner": "1234567890abcdef"}
HOURS = 3600.0


def label(name: str, **others: str) -> dict[str, str]:
    mine = {"managed-by": "deployer", "deployer-owner": ME.id}
    return {**mine, "deployer-cluster": name, **others}


def look(machine: Machine, *arguments: str) -> dict[str, dict[str, Any]]:
    out = machine.run("orphans", "-o", "json", *arguments)[0]
    return {one["cluster"]: one for one in json.loads(out)["cloud"]}


def test_a_colleagues_things_are_listed_and_stay(cloud: Cloud, machine: Machine) -> None:
    """An empty cluster, an old one without an owner, a disk and a load balancer of one gone."""
    theirs = {**COLLEAGUE, "deployer-cluster": "theirs"}
    expiring = {**theirs, "deployer-expires": "20270115-0900z"}
    cloud.add_foreign_cluster("theirs", labels=expiring, age_seconds=5 * HOURS)
    older = {"managed-by": "deployer", "deployer-cluster": "older"}
    cloud.add_foreign_cluster("older", labels=older, age_seconds=5 * HOURS)
    gone = {**COLLEAGUE, "deployer-cluster": "gone"}
    cloud.add_disk("pvc-1", labels=gone, age_seconds=5 * HOURS)
    cloud.add_forwarding_rule("a1", labels=gone)
    before = cloud.inventory()
    out, err = machine.run(*OLD, "--delete-data")
    assert cloud.inventory() == before
    assert cloud.changes == ()
    shown = " ".join(out.split())
    assert f"cluster theirs in {FIRST} (RUNNING) 1234567890abcdef 5 h 00 min" in shown
    assert "theirs stays (another owner's); deployer orphans theirs removes it anyway" in err
    assert "theirs: its agents and GPU nodes end by 2027-01-15 09:00 UTC" in err
    found = look(machine)
    ends = [found[name]["clusters"][0]["expires_at"] for name in ("older", "theirs")]
    assert ends == [None, "2027-01-15 09:00 UTC"]
    assert [found[name]["owner"] for name in ("older", "theirs")] == [None, "1234567890abcdef"]
    assert {one["use"] for one in found.values()} == {"another owner's"}
    listed = json.loads(machine.run("gke", "list", SPEC, "-o", "json")[0])
    assert {one["name"]: one["owner"] for one in listed}["theirs"] == "1234567890abcdef"
    refused = machine.run("orphans", "gone", code=2)[1]
    assert "--yes: is missing" in refused
    machine.run("orphans", "gone", "theirs", "--yes")
    assert cloud.inventory().clusters == (f"{FIRST}/older",)
    assert cloud.inventory().disks == ()
    assert cloud.inventory().forwarding_rules == ()


def test_a_colleagues_cluster_of_the_name_goes_only_if_it_is_typed(
    cloud: Cloud, machine: Machine
) -> None:
    labels = {**COLLEAGUE, "deployer-cluster": NAME}
    cloud.add_foreign_cluster(NAME, labels=labels)
    (machine.folder / "deployer.yaml").write_text(f"gke: {SPEC}\n")
    for command in (DOWN, ("gke", "down", "--yes")):
        err = machine.run(*command, code=1)[1]
        assert "another owner's cluster stays: cluster tests" in err
        assert err.count("it has owner 1234567890abcdef") == 1
        assert f"it has owner 1234567890abcdef; you are {ME.name} ({ME.id})" in err
    assert "--yes: is missing" in machine.run("down", "--cluster", code=2)[1]
    err = machine.run("down", "--cluster", "--yes", code=1)[1]
    assert "it has owner 1234567890abcdef" in err
    assert f"hint: if its owner agrees: deployer orphans {NAME} --yes" in err
    assert cloud.changes == ()
    machine.run(*DOWN, "--yes")
    assert cloud.inventory().empty


def test_without_a_terminal_gke_down_needs_yes(cloud: Cloud, machine: Machine) -> None:
    with serve_odd_kubernetes(list_foreign()) as server:
        cloud.connect_kubernetes(server.address, server.ca, cloud.token)
        cloud.add_foreign_cluster(NAME, labels=label(NAME))
        err = machine.run(*DOWN, "--owner", ME.name, code=2)[1]
    assert "holds" not in err
    assert err.splitlines()[-2:] == [
        "error: --yes: is missing, and deployer cannot ask without a terminal",
        "hint: add --yes to confirm",
    ]
    assert cloud.changes == ()


def test_a_cluster_that_others_use_stays(cloud: Cloud, machine: Machine) -> None:
    """Two hours old, made by the caller, with a colleague's pod and claim in it."""
    metadata = {"name": "notebook", "namespace": "team"}
    pod = {"metadata": metadata, "spec": {}, "status": {"phase": "Running"}}
    claim = {"metadata": metadata, "spec": {}}
    answers = list_foreign(pods=pod, persistentvolumeclaims=claim)
    with serve_odd_kubernetes(answers) as server:
        cloud.connect_kubernetes(server.address, server.ca, cloud.token)
        cloud.add_foreign_cluster(NAME, labels=label(NAME), age_seconds=2 * HOURS)
        cloud.add_disk("pvc-1", cluster=NAME, claim="notebook")
        owner = ("--owner", ME.name)  # else it is asked for a name, which this one cannot give
        out, err = machine.run("orphans", "--yes", *owner)
        assert "not empty" in out
        assert f"{NAME}: 1 Pod of others: team/notebook" in err
        assert f"{NAME}: 1 claim with data: team/notebook" in err
        err = machine.run(*DOWN, *owner, code=2)[1]
        assert "1 Pod of others: team/notebook; 1 claim with data: team/notebook" in err
        assert "hint: add --yes to confirm" in err
        assert cloud.changes == ()
    cloud.add_foreign_cluster("empty", labels=label("empty"), age_seconds=2 * HOURS)
    with serve_odd_kubernetes(list_foreign()) as server:
        cloud.connect_kubernetes(server.address, server.ca, cloud.token)
        cloud.add_foreign_cluster("empty", labels=label("empty"), age_seconds=2 * HOURS)
        err = machine.run("orphans", "--yes", *owner, code=1)[1]
    assert "not checked: " in err, "the first cluster's Kubernetes has ended"
    assert cloud.inventory().clusters == (f"{FIRST}/{NAME}",)


def test_ages_are_by_googles_clock(cloud: Cloud, machine: Machine) -> None:
    """This machine's is 65 minutes ahead; somebody's `up`, with this account, began just now."""
    cloud.set_clock_behind(65 * 60)
    cloud.add_foreign_cluster(NAME, labels=label(NAME), status="PROVISIONING")
    cloud.add_disk("pvc-1", labels=label("gone"))
    found = look(machine, "--yes")
    assert {one["use"] for one in found.values()} == {"young"}
    assert cloud.changes == ()


def test_results_stay_without_a_word_of_their_own(cloud: Cloud, machine: Machine) -> None:
    """Young disks stay, too; the price of results is listed."""
    cloud.add_disk("pvc-1", labels=label("gone"), claim="sweep-backend", age_seconds=2 * HOURS)
    cloud.add_disk("pvc-2", labels=label("gone"), claim="", age_seconds=2 * HOURS)
    cloud.add_disk("pvc-3", labels=label("young"))
    cloud.add_disk("pvc-4", labels=label("mixed"), age_seconds=2 * HOURS)
    cloud.add_disk("pvc-5", labels=label("mixed"), claim="sweep-backend", age_seconds=2 * HOURS)
    cloud.add_disk("pvc-6", cluster="lost", claim="sweep-backend", age_seconds=2 * HOURS)
    cloud.add_disk("pvc-7", labels=label("fresh"), claim="sweep-backend")
    err = machine.run("orphans", "--yes")[1]
    assert [one.rpartition("/")[2] for one in cloud.inventory().disks] == [
        *("pvc-1", "pvc-2", "pvc-3", "pvc-5", "pvc-6", "pvc-7")
    ]
    assert f"gone: disk pvc-1 in {FIRST} with results, 10 GB, $1.00 a month" in err
    assert "gone stays (holds results); deployer orphans gone --delete-data removes it" in err
    assert "young stays (young)" in err
    assert "lost stays (another owner's)" in err, "its labels do not say whose it is"
    assert f"kept: disk pvc-5 in {FIRST} with results" in err
    machine.run("orphans", "--yes", "--delete-data")
    left = ("pvc-3", "pvc-6", "pvc-7")
    assert cloud.inventory().disks == tuple(f"{FIRST}/{name}" for name in left)


def test_results_that_outlived_a_cluster_are_listed_before_they_go(
    cloud: Cloud, machine: Machine
) -> None:
    cloud.add_disk("pvc-1", labels=label(NAME), claim="sweep-backend", age_seconds=2 * HOURS)
    (machine.folder / "deployer.yaml").write_text(f"gke: {SPEC}\n")
    command = ("down", "--all", "--cluster", "--delete-data")
    err = machine.run(*command, code=2)[1]
    assert f"to be deleted: disk pvc-1 in {FIRST} with results, 10 GB, $1.00 a month" in err
    assert cloud.changes == ()
    machine.run(*command, "-y")
    assert cloud.inventory().empty


@pytest.mark.full
def test_up_deletes_no_broken_cluster_that_holds_something(cloud: Cloud, machine: Machine) -> None:
    """One of the caller's with its backend's disk, whose deletion failed; a colleague's."""
    cloud.set_operation_seconds(0.05)
    cloud.add_foreign_cluster(NAME, labels=label(NAME), status="ERROR")
    cloud.add_disk("pvc-1", cluster=NAME, claim="sweep-backend")
    err = machine.run(*UP, code=1)[1]
    assert f"cluster {NAME} in {FIRST} is ERROR and stays: 1 disk with data: disk pvc-1" in err
    assert "hint: deployer gke down SPEC --yes" in err
    assert cloud.changes == ()
    err = machine.run(*DOWN, "--yes")[1]
    assert f"kept: disk pvc-1 in {FIRST} with results, 10 GB, $1.00 a month" in err
    assert cloud.inventory().disks == (f"{FIRST}/pvc-1",)
    assert cloud.inventory().clusters == ()
    machine.run(*DOWN, "--yes", "--delete-data")
    assert cloud.inventory().empty

    before = cloud.changes
    cloud.add_foreign_cluster(NAME, labels={**COLLEAGUE, "deployer-cluster": NAME}, status="ERROR")
    assert "it has owner 1234567890abcdef" in machine.run(*UP, code=1)[1]
    assert cloud.changes == before


@pytest.mark.full
def test_what_cannot_be_labelled_is_named_until_it_is_gone(cloud: Cloud, machine: Machine) -> None:
    """The command that deletes the cluster is killed, and the next one would find nothing."""
    cloud.set_operation_seconds(0.05)
    machine.run(*UP)
    cloud.add_disk("pvc-1", cluster=NAME)
    cloud.add_forwarding_rule("a1", cluster=NAME)
    cloud.fail("disks.setLabels", permission("compute.disks.setLabels"), times=math.inf)
    cloud.fail("forwardingRules.setLabels", permission(), times=math.inf)
    cloud.fail("forwardingRules.delete", permission(), times=math.inf)
    cloud.kill_client_at(1, "after", "DeleteCluster")
    _, _, err = machine.try_run(*DOWN, "--yes")
    named = f"disk pvc-1 in {FIRST} lacks deployer's labels: note its name until it is gone"
    assert named in err.splitlines()
    cloud.spare_clients()
    err = machine.run(*DOWN, "--yes", code=1)[1]
    assert f"still there: disk pvc-1 in {FIRST}, without deployer's labels" in err
    assert "forwarding rule a1 in us-central1, without deployer's labels" in err
    cloud.estate.disks.clear()
    cloud.estate.rules.clear()
    assert "no leftovers" in machine.run(*DOWN, "--yes")[1]


@pytest.mark.parametrize("call", ["disks.aggregatedList", "forwardingRules.aggregatedList"])
def test_what_could_not_be_listed_is_not_checked(cloud: Cloud, machine: Machine, call: str) -> None:
    cloud.fail(call, permission("compute.list"), times=math.inf)
    err = machine.run(*DOWN, "--yes", code=1)[1]
    assert f"could not check for leftovers of {NAME}: cannot list " in err
    assert SECOND not in err
