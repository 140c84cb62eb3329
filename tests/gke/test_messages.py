"""What is sent to Google for each specification, as `deployer gke plan` prints it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.__main__ import run
from deployer.config.credentials import Owner, build_owner
from deployer.config.document import parse_document
from deployer.gke.api.messages import build_cluster, build_gpu_pool, describe_plan, to_plain
from deployer.gke.specification import ClusterSpec, load_spec, parse_spec
from tests.golden_files import check_golden

PACKAGED = ("t4", "l4-spot", "regional", "a100-mig", "private")
FOLDER = Path(__file__).parents[2] / "infra" / "gke"
HEAD = "name: lab\nlocation: us-central1-a\n"
T4 = "accelerator: nvidia-tesla-t4, machine_type: n1-standard-4"


def parse(text: str) -> ClusterSpec:
    return parse_spec(parse_document(HEAD + text, "lab.yaml"))


def plan_pool(gpu: str) -> dict[str, Any]:
    spec = parse(f"gpus: [{{{gpu}}}]")
    return to_plain(build_gpu_pool(spec, 0, "us-central1-a"))


@pytest.mark.parametrize("name", PACKAGED)
def test_plan_of_each_specification(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["gke", "plan", name]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"for [13] x e2-standard-2 \(2025-03-06, \d+ months old, https://", err)
    assert re.search(r"system pool, \$0\.\d\d an hour, about \$\d{3} a month", err)
    check_golden(f"gke/{name}.yaml", out)
    assert run(["gke", "plan", name, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == list(yaml.safe_load_all(out))


def test_plan_names_a_gpu_for_which_our_image_has_no_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    packaged = (FOLDER / "t4.yaml").read_text()
    (tmp_path / "v100.yaml").write_text(packaged.replace("nvidia-tesla-t4", "nvidia-tesla-v100"))
    shutil.copy(FOLDER.parents[1] / "Dockerfile", tmp_path)
    for variant, said in (("cuda", True), ("cuda12", False)):
        image = f"image: {{repository: registry.example/a/b, variant: {variant}}}\n"
        (tmp_path / "deployer.yaml").write_text(image)
        assert run(["gke", "plan", "v100.yaml"]) == 0
        err = capsys.readouterr().err
        assert ("warning: the image's PyTorch has no kernels for nvidia-tesla-v100" in err) is said
        assert ("(image: {variant: cuda12} in deployer.yaml)" in err) is said


def test_every_packaged_specification_has_a_golden() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(PACKAGED)


def test_what_is_planned_is_what_is_sent(tmp_path: Path) -> None:
    spec = load_spec("l4-spot", tmp_path)
    (_, parent, planned), (_, cluster, pool) = describe_plan(spec, "lab")[:2]
    owner = build_owner("me@example.com")
    sent = build_cluster(spec, "us-central1-a", "lab", owner)
    assert type(sent)(name_owner(planned, owner)) == sent
    second = build_gpu_pool(spec, 1, "us-central1-a", owner)
    assert type(second)(name_owner(pool, owner)) == second
    assert parent == "projects/lab/locations/us-central1-a"
    assert cluster == f"{parent}/clusters/deployer-l4"


def name_owner(planned: dict[str, Any], owner: Owner) -> dict[str, Any]:
    """Return what is planned with the owner, whom only the cloud knows."""
    text = json.dumps(planned).replace('"OWNER"', json.dumps(owner.id))
    named: dict[str, Any] = json.loads(text.replace("for OWNER", f"for {owner.name}"))
    return named


def test_a_gpu_pool_starts_at_nothing_and_grows_wherever_there_is_room() -> None:
    pool = build_gpu_pool(parse(f"gpus: [{{{T4}, max_nodes: 7}}]"), 0, "us-central1-a")
    assert (pool.name, pool.initial_node_count, list(pool.locations)) == ("gpu-1", 0, [])
    assert pool.autoscaling.enabled
    assert (pool.autoscaling.total_min_node_count, pool.autoscaling.total_max_node_count) == (0, 7)
    # The other pair counts in each zone and excludes this one.
    assert (pool.autoscaling.min_node_count, pool.autoscaling.max_node_count) == (0, 0)
    assert pool.autoscaling.location_policy.name == "ANY"


def test_ours_is_told_by_its_labels() -> None:
    spec = parse(f"labels: {{team: vision}}\ngpus: [{{{T4}}}]")
    owner = build_owner("me@example.com")
    cluster = build_cluster(spec, "us-central1-a", "lab", owner)
    ours = {"managed-by": "deployer", "deployer-cluster": "lab", "deployer-owner": owner.id}
    labels = {"team": "vision", **ours}
    assert dict(cluster.resource_labels) == labels
    assert [dict(pool.config.labels) for pool in cluster.node_pools] == [labels, labels]


def test_only_the_first_choice_comes_with_the_cluster() -> None:
    spec = parse(f"gpus: [{{{T4}, spot: true}}, {{{T4}}}]")
    cluster = build_cluster(spec, "us-central1-a", "lab")
    assert [pool.name for pool in cluster.node_pools] == ["system", "gpu-1"]
    assert [call for call, _, _ in describe_plan(spec)] == ["CreateCluster", "CreateNodePool"]
    assert build_gpu_pool(spec, 1, "us-central1-a").name == "gpu-2"


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        (f"{T4}, driver_version: latest", {"gpu_driver_version": "LATEST"}),
        (f"{T4}, driver_version: disabled", {"gpu_driver_version": "INSTALLATION_DISABLED"}),
        (T4, {"gpu_driver_version": "DEFAULT"}),
    ],
)
def test_the_driver_is_always_said(gpu: str, expected: dict[str, str]) -> None:
    (accelerator,) = plan_pool(gpu)["config"]["accelerators"]
    assert accelerator["gpu_driver_installation_config"] == expected


@pytest.mark.parametrize(("strategy", "sent"), [("time-sharing", "TIME_SHARING"), ("mps", "MPS")])
def test_shared_gpus(strategy: str, sent: str) -> None:
    gpu = f"{T4}, count: 2, sharing: {{strategy: {strategy}, clients: 4}}"
    (accelerator,) = plan_pool(gpu)["config"]["accelerators"]
    assert accelerator["accelerator_count"] == "2"
    assert accelerator["gpu_sharing_config"] == {
        "max_shared_clients_per_gpu": "4",
        "gpu_sharing_strategy": sent,
    }


def test_agents_on_gpus_shared_by_mps_share_their_nodes_ipc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """NVIDIA's MPS speaks to its clients through it; nobody else gets it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "deployer.yaml").write_text(
        "gke: lab.yaml\nkubernetes: {image: trainer:1, code: image}\n"
    )
    sweep = Path(__file__).parents[2] / "sweeps" / "digits.yaml"
    found = []
    for strategy in ("mps", "time-sharing"):
        shared = f"{T4}, sharing: {{strategy: {strategy}, clients: 2}}"
        (tmp_path / "lab.yaml").write_text(f"{HEAD}gpus: [{{{shared}}}]")
        words = ["plan", str(sweep), "--on", "gke", "--wandb", "https://wandb.example"]
        assert run([*words, "-o", "json"]) == 0
        *_, job = json.loads(capsys.readouterr().out)
        found.append(job["spec"]["template"]["spec"].get("hostIPC"))
    assert found == [True, None]


def test_ways_to_buy_machines() -> None:
    flexible = plan_pool(f"{T4}, flex_start: true")
    assert flexible["config"]["flex_start"] is True
    affinity = flexible["config"]["reservation_affinity"]
    assert affinity == {"consume_reservation_type": "NO_RESERVATION"}
    assert flexible["management"] == {"auto_upgrade": True}
    assert "upgrade_settings" not in flexible
    reserved = plan_pool(f"{T4}, reservation: mine")
    assert reserved["config"]["reservation_affinity"] == {
        "consume_reservation_type": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": ["mine"],
    }
    assert "flex_start" not in reserved["config"]


def test_gpu_nodes_end_after_a_time_and_the_system_pool_goes_on() -> None:
    spec = parse(f"max_node_time: 2h\ngpus: [{{{T4}}}]")
    assert spec.limit_nodes(3 * 3600) == spec
    system, gpu = build_cluster(spec.limit_nodes(5400.4), "us-central1-a", "lab").node_pools
    assert gpu.config.max_run_duration.total_seconds() == 5400
    assert not system.config.max_run_duration
    assert to_plain(gpu)["config"]["max_run_duration"] == "5400s"


def test_what_nodes_act_as_and_how_images_come() -> None:
    account = "nodes@my-project.iam.gserviceaccount.com"
    spec = parse(f"service_account: {account}\nimage_streaming: true\ngpus: [{{{T4}}}]")
    for pool in build_cluster(spec, "us-central1-a", "lab").node_pools:
        assert pool.config.service_account == account
        assert pool.config.gcfs_config.enabled


def test_machines_that_take_no_persistent_disk() -> None:
    h200 = "accelerator: nvidia-h200-141gb, machine_type: a3-ultragpu-8g, count: 8, disk_gb: 300, "
    h200 += "spot: true"
    config = plan_pool(h200)["config"]
    assert (config["disk_type"], config["disk_size_gb"]) == ("hyperdisk-balanced", 300)


def test_a_location_gets_the_zones_of_its_own_region() -> None:
    text = f"gpus: [{{{T4}, zones: [us-central1-b, us-west1-b]}}]"
    head = "name: lab\nlocation: [us-central1, us-west1, us-east1]\n"
    spec = parse_spec(parse_document(head + text, "lab.yaml"))
    zones = [list(build_gpu_pool(spec, 0, one).locations) for one in spec.locations]
    assert zones == [["us-central1-b"], ["us-west1-b"], []]
    messages = [message for _, _, message in describe_plan(spec)]
    assert not any("same_as" in message for message in messages)


def test_a_project_is_named_where_it_is_known() -> None:
    spec = parse(f"project: my-project\ngpus: [{{{T4}}}]")
    ((_, parent, message),) = describe_plan(spec)
    assert parent == "projects/my-project/locations/us-central1-a"
    assert message["workload_identity_config"] == {"workload_pool": "my-project.svc.id.goog"}


def test_private_nodes_and_public_ones() -> None:
    private = build_cluster(parse(f"private_nodes: true\ngpus: [{{{T4}}}]"), "us-central1-a", "lab")
    assert private.network_config.default_enable_private_nodes
    assert private.control_plane_endpoints_config.ip_endpoints_config.enable_public_endpoint
    public = to_plain(build_cluster(parse(f"gpus: [{{{T4}}}]"), "us-central1-a", "lab"))
    assert "network_config" not in public


def test_specifications_are_read_without_google() -> None:
    program = (
        "import sys; from pathlib import Path; "
        "from deployer.gke.specification import load_spec; "
        "from deployer.gke.pricing import load_prices; "
        "load_spec(None, Path('.')); load_prices(Path('.')); "
        "print([name for name in sys.modules if name.split('.')[0] in ('google', 'kubernetes')])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert answer.stdout.strip() == "[]", answer.stderr
