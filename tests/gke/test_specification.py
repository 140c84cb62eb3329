"""Specifications of clusters: what is taken, and every complaint with its line and hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.config.credentials import build_owner
from deployer.errors import ConfigError
from deployer.gke.specification import (
    GpuChoice,
    Sharing,
    SystemPool,
    cluster_labels,
    is_zone,
    load_spec,
    region_of,
)
from tests.gke.specs import GOOD, HEAD, complain, parse

EVERYTHING = """
name: lab-1
project: my-project-1
locations: [us-central1, europe-west4-a, us-central1-ai1a]
labels: {team: vision, cost_center: "42", empty: ""}
network: projects/hub/global/networks/lab
subnetwork: lab-nodes
private_nodes: true
release_channel: stable
system_pool: {machine_type: e2-standard-4, nodes: 2, disk_gb: 80}
gpus:
  - accelerator: nvidia-a100-80gb
    count: 2
    machine_type: a2-ultragpu-2g
    spot: true
    disk_gb: 500
    driver_version: latest
    partition_size: 3g.40gb
    sharing: {strategy: time-sharing, clients: 2}
    max_nodes: 8
    zones: [us-central1-a, us-central1-c]
  - {accelerator: nvidia-tesla-t4, machine_type: n1-standard-8, zones: europe-west4-b}
"""


def test_everything_that_can_be_said() -> None:
    spec = parse(EVERYTHING)
    assert (spec.name, spec.project, spec.release_channel) == ("lab-1", "my-project-1", "stable")
    assert spec.locations == ("us-central1", "europe-west4-a", "us-central1-ai1a")
    assert spec.labels == {"team": "vision", "cost_center": "42", "empty": ""}
    assert (spec.network, spec.subnetwork) == ("projects/hub/global/networks/lab", "lab-nodes")
    assert spec.private_nodes
    assert spec.system_pool == SystemPool(machine_type="e2-standard-4", nodes=2, disk_gb=80)
    assert spec.gpus[0] == GpuChoice(
        accelerator="nvidia-a100-80gb",
        count=2,
        machine_type="a2-ultragpu-2g",
        spot=True,
        disk_gb=500,
        driver_version="latest",
        partition_size="3g.40gb",
        sharing=Sharing(strategy="time-sharing", clients=2),
        max_nodes=8,
        zones=("us-central1-a", "us-central1-c"),
    )
    assert spec.gpus[1].zones == ("europe-west4-b",)
    assert spec.pool_names == ("gpu-1", "gpu-2")
    assert spec.gpus[0].zones_in("us-central1") == ("us-central1-a", "us-central1-c")
    assert spec.gpus[0].zones_in("europe-west4-a") == ()


def test_what_is_left_out() -> None:
    spec = parse(HEAD + GOOD)
    assert (spec.project, spec.locations, spec.labels) == (None, ("us-central1-a",), {})
    assert (spec.network, spec.private_nodes, spec.release_channel) == ("default", False, "regular")
    assert spec.system_pool == SystemPool(machine_type="e2-standard-2", nodes=1, disk_gb=50)
    (choice,) = spec.gpus
    assert (choice.count, choice.spot, choice.max_nodes, choice.zones) == (1, False, 4, ())
    assert (choice.driver_version, choice.partition_size, choice.sharing) == ("default", None, None)


def test_location_takes_one_or_many() -> None:
    for key in ("location", "locations"):
        for value, locations in (("us-east1", ("us-east1",)), ("[us-east1, us-west1-b]", None)):
            spec = parse(f"name: lab\n{key}: {value}\n{GOOD}")
            assert spec.locations == (locations or ("us-east1", "us-west1-b"))


def test_ours_is_labelled() -> None:
    spec = parse(HEAD + "labels: {team: vision}\n" + GOOD)
    owner = build_owner("me@example.com")
    ours = {"managed-by": "deployer", "deployer-cluster": "lab", "deployer-owner": owner.id}
    assert cluster_labels(spec, owner) == {"team": "vision", **ours}


def test_zones_and_regions() -> None:
    assert [region_of(one) for one in ("us-east1", "us-east1-b")] == ["us-east1", "us-east1"]
    assert [is_zone(one) for one in ("us-east1", "us-east1-b")] == [False, True]


LIST_HINT = "write each item on its own line, after a dash"
NAME_HINT = "small letters, digits and dashes, at most 40, a letter first, no dash last"
LABEL_HINT = (
    "small letters, digits, dashes and underscores, at most 63, a letter or digit at the end"
)
PLACE_HINT = "a zone such as us-central1-a, or a region such as us-central1"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("name: Lab", "1: name: 'Lab' is not valid", NAME_HINT),
        ("name: lab-", "1: name: 'lab-' is not valid", NAME_HINT),
        ("name: 1lab", "1: name: '1lab' is not valid", NAME_HINT),
        (f"name: {'a' * 41}", f"1: name: '{'a' * 41}' is not valid", NAME_HINT),
        ("name: 7", "1: name: 7 is not text", "put it in quotes"),
        (
            "project: My Project",
            "1: project: 'My Project' is not valid",
            "the project's id, not its title: gcloud projects list",
        ),
        ("location: us-central", "1: location: 'us-central' is not valid", PLACE_HINT),
        ("location: [3]", "1: location[0]: 3 is not text", "put it in quotes"),
        ("location: 3", "1: location: 3 is not a list", LIST_HINT),
        ("location: []", "1: location: is empty", "such as us-central1-a"),
        (
            "location: [us-east1, us-east1]",
            "1: location[1]: us-east1 appears twice",
            "remove one of them",
        ),
        (
            "labels: {Team: a}",
            "1: labels.Team: 'Team' is not valid",
            f"{LABEL_HINT}, a letter first",
        ),
        ("labels: {team: A}", "1: labels.team: 'A' is not valid", LABEL_HINT),
        ("labels: {team: a-}", "1: labels.team: 'a-' is not valid", LABEL_HINT),
        (
            f"labels: {{{', '.join(f'l{n}: a' for n in range(51))}}}",
            "1: labels: dictionary should have at most 50 items after validation, not more",
            "",
        ),
        (
            "service_account: me",
            "1: service_account: 'me' is not valid",
            "its address, such as nodes@my-project.iam.gserviceaccount.com",
        ),
        ("labels: {team: 4}", "1: labels.team: 4 is not text", "put it in quotes"),
        (
            "labels: {managed-by: me}",
            "1: labels: 'managed-by' is reserved by deployer",
            "choose another",
        ),
        (
            "labels: {deployer-cluster: me}",
            "1: labels: 'deployer-cluster' is reserved by deployer",
            "choose another",
        ),
        ("labels: {goog-a: b}", "1: labels: 'goog-a' is reserved by Google", "choose another"),
        (
            "network: My Network",
            "1: network: 'My Network' is not valid",
            "the network's name, or projects/PROJECT/global/networks/NAME",
        ),
        (
            "private_nodes: 1",
            "1: private_nodes: 1 is not true or false",
            "write true or false, without quotes",
        ),
        (
            "release_channel: slow",
            "1: release_channel: 'slow' is not known",
            "one of: 'rapid', 'regular', 'stable' or 'extended'",
        ),
        ("system_pool: {node: 1}", "1: system_pool.node: unknown key", "did you mean `nodes`?"),
        (
            "system_pool: {nodes: 0}",
            "1: system_pool.nodes: 0 is below 1",
            "write 1 or more",
        ),
        (
            "system_pool: {disk_gb: 5}",
            "1: system_pool.disk_gb: 5 is below 10",
            "write 10 or more",
        ),
        (
            "system_pool: {machine_type: small}",
            "1: system_pool.machine_type: 'small' is not valid",
            "such as n1-standard-8",
        ),
        (
            "system_pool: {machine_type: g2-standard-4}",
            "1: system_pool.machine_type: g2-standard-4 comes with nvidia-l4, "
            "and the system pool always runs",
            "such as e2-standard-2",
        ),
        ("gpu: []", "1: gpu: unknown key", "did you mean `gpus`?"),
        ("colour: blue", "1: colour: unknown key", None),
        (
            "gpus: []",
            "1: gpus: is empty",
            "such as {accelerator: nvidia-tesla-t4, machine_type: n1-standard-8}",
        ),
        ("gpus: {a: b}", "1: gpus: {'a': 'b'} is not a list", LIST_HINT),
        ("gpus: [t4]", "1: gpus[0]: 't4' is not a mapping", "write `name: value` pairs below it"),
        (
            "gpus: [{accelerator: nvidia-l4, machine_type: g2-standard-4, since: 2026-11-21}]",
            "1: gpus[0].since: unknown key",
            None,
        ),
    ],
)
def test_complaints(text: str, message: str, hint: str | None) -> None:
    key = text.partition(":")[0]
    rest = {"name": "name: lab", "location": "location: us-central1-a", "gpus": GOOD}
    others = "\n".join(line for name, line in rest.items() if name != key)
    (said,) = complain(f"{text}\n{others}")
    assert said[0] == f"lab.yaml:{message}"
    assert hint is None or said[1] == hint


def test_all_complaints_come_at_once_each_with_its_line() -> None:
    text = "\n".join(
        (
            "name: Lab",
            "location: us-central1-a",
            "locations: [us-east1]",
            "private_nodes: maybe",
            "gpus:",
            "  - accelerator: t4",
            "    machine_type: n1-standard-8",
            "    kount: 1",
            "  - accelerator: nvidia-l4",
            "    machine_type: g2-standard-24",
            "    zones: [us-east1-b]",
            "name: lab",
        )
    )
    assert [message for message, _ in complain(text)] == [
        "lab.yaml:4: private_nodes: 'maybe' is not true or false",
        "lab.yaml:8: gpus[0].kount: unknown key",
        "lab.yaml:12: name: the key appears twice (also in line 1); the last one counts",
        "lab.yaml:6: gpus[0].accelerator: 't4' is not Google's name for it",
        "lab.yaml:9: gpus[1].count: g2-standard-24 comes with 2 GPUs, not with 1",
        "lab.yaml:3: locations: `location` is also set",
        "lab.yaml:11: gpus[1].zones[0]: us-east1-b is not in us-central1",
    ]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("", ["lab.yaml: name: is missing", "lab.yaml: location: is missing"]),
        ("[a]", ["lab.yaml: ['a'] is not a mapping"]),
        ("a: &a [*a]", ["lab.yaml: an anchor contains itself"]),
        ("2026-01-01: x", ["lab.yaml: a key must be text or a number"]),
    ],
)
def test_files_that_are_none(text: str, messages: list[str]) -> None:
    assert [message for message, _ in complain(text)][: len(messages)] == messages


def test_a_file_is_found_in_the_folder_before_the_package(tmp_path: Path) -> None:
    assert load_spec(None, tmp_path).name == "deployer-t4"
    assert load_spec("l4-spot", tmp_path).gpus[0].spot
    (tmp_path / "own.yaml").write_text(HEAD + GOOD)
    (tmp_path / "t4").write_text(HEAD + GOOD)
    assert load_spec("own.yaml", tmp_path).name == "lab"
    assert load_spec(str(tmp_path / "own.yaml"), Path("/")).name == "lab"
    assert load_spec("t4", tmp_path).name == "lab"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for named, hint in (
        ("l4-spt", "did you mean `l4-spot`?"),
        ("x", "a path, or one of: a100-mig, l4-spot, private, regional, t4"),
    ):
        with pytest.raises(ConfigError) as caught:
            load_spec(named, tmp_path)
        assert caught.value.message == f"{named}: cluster specification not found"
        assert caught.value.hint == hint
    (tmp_path / "odd.yaml").write_bytes(b"name: \xff")
    with pytest.raises(ConfigError, match=r"odd.yaml: cannot be read: "):
        load_spec("odd.yaml", tmp_path)
    (tmp_path / "broken.yaml").write_text("name: [")
    with pytest.raises(ConfigError, match=r"broken.yaml:1:\d+: unreadable YAML"):
        load_spec("broken.yaml", tmp_path)
