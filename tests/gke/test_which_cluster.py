"""`down --cluster` deletes the cluster that is meant: a sweep's own, or this folder's."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from deployer.sweeps.records import SweepRecord
from tests.gke.cloud import PROJECT, Cloud
from tests.gke.commands import Machine
from tests.gke.rooms import FIRST, NAME, SECOND, write_spec
from tests.gke.test_teardown import ME

OTHER = "others"
SERVER = "wandb: http://w.example\n"  # so that no results are in the clusters


def label(name: str) -> dict[str, str]:
    return {"managed-by": "deployer", "deployer-owner": ME.id, "deployer-cluster": name}


def remember(
    machine: Machine, folder: Path, *, on: str = "gke", name: str = OTHER, location: str = FIRST
) -> str:
    """Note a sweep of a folder whose agents were started there; return its path."""
    cloud = f"projects/{PROJECT}/locations/{location}/clusters/{name}" if on == "gke" else ""
    path = f"user/p/{on}{name}"
    record = SweepRecord(
        path.replace("/", "-"),
        path,
        "embedded",
        "",
        str(folder),
        "s.yaml",
        "",
        1.0,
        on,
        cloud=cloud,
    )
    records = machine.folder / "home/.local/share/deployer/sweeps"
    records.mkdir(parents=True, exist_ok=True)
    (records / f"{record.mutation_id}.json").write_text(json.dumps(asdict(record)))
    return path


@pytest.fixture
def both(cloud: Cloud) -> Cloud:
    """A cluster that this folder's specification names, and one of another folder's sweep.

    Their Kubernetes does not answer, so each has to be meant.
    """
    for name in (NAME, OTHER, "deployer-t4"):
        cloud.add_foreign_cluster(name, labels=label(name))
    return cloud


def left(cloud: Cloud) -> set[str]:
    return set(cloud.inventory().clusters)


def test_a_sweeps_cluster_is_meant_wherever_that_is_typed(
    both: Cloud, machine: Machine, tmp_path: Path
) -> None:
    write_spec(machine.folder)
    (machine.folder / "deployer.yaml").write_text(f"{SERVER}gke: cluster.yaml\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/deployer.yaml").write_text(SERVER)
    path = remember(machine, tmp_path / "elsewhere")
    err = machine.run("down", path, "--cluster", code=2)[1]
    named = f"cluster {OTHER} in {FIRST} of project {PROJECT}"
    assert f"to be deleted: {named}" in err
    assert "--yes: is missing" in err
    assert both.changes == ()
    err = machine.run("down", path, "--cluster", "--yes")[1]
    assert f"no leftovers of {OTHER} in project {PROJECT}" in err
    assert left(both) == {f"{FIRST}/{NAME}", f"{FIRST}/deployer-t4"}
    err = machine.run("down", path, "--cluster", "--yes", code=2)[1]
    assert f"no cluster is recorded for {path}" in err


def test_a_cluster_whose_creation_was_cut_off_is_meant_by_its_folder(
    both: Cloud, machine: Machine
) -> None:
    """`up` notes it before it is asked for, when its location is not known."""
    (machine.folder / "deployer.yaml").write_text(SERVER)
    remember(machine, machine.folder, location="-")
    err = machine.run("down", "--cluster", "--yes")[1]
    assert f"to be deleted: cluster {OTHER} in {FIRST} of project {PROJECT}" in err
    assert left(both) == {f"{FIRST}/{NAME}", f"{FIRST}/deployer-t4"}


def test_without_a_sweep_it_is_the_folders_own(both: Cloud, machine: Machine) -> None:
    remember(machine, machine.folder)
    (machine.folder / "deployer.yaml").write_text(SERVER)
    machine.run("down", "--cluster", "--yes")
    assert left(both) == {f"{FIRST}/{NAME}", f"{FIRST}/deployer-t4"}
    write_spec(machine.folder)
    (machine.folder / "deployer.yaml").write_text(f"{SERVER}on: kubernetes\ngke: cluster.yaml\n")
    err = machine.run("down", "--cluster", code=2)[1]
    assert "--yes: is missing" in err  # no sweep of this folder made it
    machine.run("down", "--cluster", "--yes")
    assert left(both) == {f"{FIRST}/deployer-t4"}


@pytest.mark.parametrize("on", ["kubernetes", "local"])
@pytest.mark.parametrize("text", ["", "on: local\n", "on: kubernetes\n", "on: gke\n"])
def test_what_nobody_named_stays(both: Cloud, machine: Machine, on: str, text: str) -> None:
    (machine.folder / "deployer.yaml").write_text(text)
    path = remember(machine, machine.folder, on=on)
    for words in (("--cluster",), (path, "--cluster"), ("--all", "--cluster")):
        err = machine.run("down", *words, "--yes", code=2)[1]
        assert "error: --cluster: no cluster" in err
    assert both.changes == ()


def test_of_two_of_a_name_only_that_in_its_location_goes(both: Cloud, machine: Machine) -> None:
    both.add_foreign_cluster(OTHER, SECOND, labels=label(OTHER))
    (machine.folder / "deployer.yaml").write_text(SERVER)
    kept = {**label(OTHER), "goog-k8s-cluster-location": SECOND}
    both.add_disk("kept", SECOND, cluster=OTHER, labels=kept)
    machine.run("down", remember(machine, machine.folder), "--cluster", "--yes")
    assert f"{SECOND}/{OTHER}" in left(both)
    assert f"{FIRST}/{OTHER}" not in left(both)
    assert [disk.rpartition("/")[2] for disk in both.inventory().disks] == ["kept"]


def test_a_place_that_makes_no_clusters_has_none(both: Cloud, machine: Machine) -> None:
    remember(machine, machine.folder)
    err = machine.run("down", "--cluster", "--on", "local", "--yes", code=2)[1]
    assert err.splitlines()[-2:] == [
        "error: --cluster: no cluster was made on local",
        "hint: --on gke",
    ]
    assert both.changes == ()
