"""What is checked before agents are started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.backend.scheduling.sweep_control import LOCAL_CONTROLLER
from deployer.config.project import Flags
from deployer.errors import ConfigError
from deployer.executors.base import Limits, run_checks
from deployer.executors.registry import find_executor
from deployer.launch.check import (
    check,
    check_program_here,
    check_reach,
    list_place_checks,
    warn_about_port,
)
from deployer.launch.planning import build_draft
from deployer.launch.request import SweepRequest
from deployer.launch.script import doubt_metrics
from deployer.sweeps.sweep_file import load_sweep
from deployer.wandb_api.server import Inside
from tests.project_files import read_project


def test_pods_do_not_reach_this_machines_own_address(tmp_path: Path) -> None:
    project = read_project(tmp_path)
    check_reach(find_executor(project, "local"), "http://127.0.0.1:8080")
    check_reach(find_executor(project, "kubernetes"), "http://10.0.0.1:8080")
    with pytest.raises(ConfigError) as raised:
        check_reach(find_executor(project, "kubernetes"), "http://localhost:8080")
    assert raised.value.message == (
        "--on: pods in a cluster cannot reach http://localhost:8080, an address of this machine"
    )
    assert raised.value.hint == (
        "deployer backend down, then deployer backend serve --host ADDRESS, one that pods reach"
    )


def test_only_agents_in_the_cluster_reach_the_backend_that_is_in_it(tmp_path: Path) -> None:
    url = "http://sweep-backend.sweeps.svc:8080"
    inside = Inside("gke", url, "http://127.0.0.1:20001", "uid")
    project = read_project(tmp_path)
    check_reach(find_executor(project, "gke"), url, inside)
    for on in ("local", "kubernetes"):
        with pytest.raises(ConfigError) as raised:
            check_reach(find_executor(project, on), url, inside)
        assert raised.value.message == (
            f"--on: agents on {on} cannot reach {url}, the embedded backend of --on gke"
        )
        assert raised.value.hint == "start them there: --on gke"


@pytest.mark.parametrize(
    ("words", "on", "agents", "shared"),
    [
        ("torchrun --master_port 29500 ${program}", "local", 2, "--master_port 29500"),
        (
            "torchrun --rdzv-endpoint=localhost:29400 x",
            "local",
            2,
            "--rdzv-endpoint=localhost:29400",
        ),
        ("torchrun --rdzv-endpoint=localhost:0 x", "local", 2, ""),
        ("torchrun --master_port 29500 x", "local", 1, ""),
        ("torchrun --master_port 29500 x", "kubernetes", 2, ""),
    ],
)
def test_a_port_that_agents_of_one_machine_would_share_is_named(
    words: str, on: str, agents: int, shared: str, tmp_path: Path
) -> None:
    executor = find_executor(read_project(tmp_path), on)
    warning = warn_about_port(executor, {"command": words.split()}, agents)
    assert warning.partition(": 2 agents on this machine share one port")[0] == shared


def test_what_a_template_says_in_vain_is_named_and_its_image_serves_the_backend(
    tmp_path: Path,
) -> None:
    container = {"name": "main", "image": "own:3", "env": [{"name": "WANDB_PROJECT", "value": "x"}]}
    pod = {"containers": [container], "restartPolicy": "Never"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x", "namespace": "team"}}
    job |= {"spec": {"template": {"spec": pod}}}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    (tmp_path / "deployer.yaml").write_text(
        "wandb: embedded\nkubernetes: {template: job.yaml, code: image}\n"
    )
    project = read_project(tmp_path)
    executor = find_executor(project, "kubernetes")
    draft = build_draft(project, executor.embedded_url, True)
    assert executor.describe_runs(draft).warnings == (
        "WANDB_PROJECT takes runs out of their sweep: remove it from the agents' environment",
        "job.yaml: namespace team is not used: kubernetes: {namespace: team} in deployer.yaml is",
    )
    sets = [one for one in executor.preview(draft) if one["kind"] == "StatefulSet"]
    assert sets[0]["spec"]["template"]["spec"]["containers"][0]["image"] == "own:3"


GRID = "program: train.py\nmethod: grid\nparameters: {a: {values: [1, 2]}}\n"
GKE = "on: gke\nwandb: http://w.example\n"


def refuse(folder: Path, text: str, **wanted: Any) -> str:
    """Return why a sweep is refused that would be made as deployer.yaml says."""
    (folder / "deployer.yaml").write_text(text)
    (folder / "grid.yaml").write_text(GRID)
    (folder / "train.py").touch()
    project = read_project(folder, WANDB_API_KEY="k" * 40)
    request = SweepRequest(folder / "grid.yaml", load_sweep(folder / "grid.yaml"), **wanted)
    with pytest.raises(ConfigError) as raised:
        check(find_executor(project), request, None)
    return raised.value.message


@pytest.mark.parametrize(
    ("text", "wanted", "said"),
    [
        (GKE, {}, "deployer.yaml: kubernetes.image: is missing"),
        ("on: kubernetes\n", {}, "deployer.yaml: kubernetes.image: is missing"),
        (
            GKE + "gke: nowhere\nkubernetes: {image: x}\n",
            {},
            "nowhere: cluster specification not found",
        ),
        (GKE + "kubernetes: {image: x, template: no.yaml}\n", {}, "no.yaml: cannot be read"),
        ("on: local\n", {"capacity_seconds": 60.0}, "--wait-for-capacity: --on local"),
        (GKE + "entity: a/b\n", {}, "--entity: 'a/b' contains"),
        (
            "on: kubernetes\nkubernetes: {image: x, agents_per_pod: 2}\n",
            {"one_run": True},
            "kubernetes.agents_per_pod: a pod of 2 agents ends with the last of their runs",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_contacted(
    tmp_path: Path, text: str, wanted: dict[str, Any], said: str
) -> None:
    """There is no cloud, no cluster and no server to be asked."""
    assert said in refuse(tmp_path, text, **wanted)


@pytest.mark.parametrize(
    ("server", "more", "refused"),
    [
        ("embedded", "", True),
        ("embedded", "scheduler: {engine: optuna}\n", False),
        ("http://w.example", "", False),
    ],
)
def test_a_local_controller_is_refused_where_no_server_of_ours_serves_one(
    server: str, more: str, refused: bool, tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "grid.yaml").write_text(f"{GRID}controller: {{type: local}}\n{more}")
    project = read_project(tmp_path, Flags(wandb=server), WANDB_API_KEY="k" * 40)
    config = load_sweep(tmp_path / "grid.yaml").config
    said = ""
    try:
        check_program_here(find_executor(project), config, project.code, "grid.yaml")
    except ConfigError as error:
        said = f"{error.message} | {error.hint}"
    place, _, sentence = said.partition("controller: ")
    assert (place, sentence.replace(" | ", ": ")) == (
        ("grid.yaml: ", LOCAL_CONTROLLER) if refused else ("", "")
    )


def test_an_image_that_is_not_built_yet_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "deployer.yaml").write_text("image: {repository: registry.example/team/trainer}\n")
    project = read_project(tmp_path, Flags(on="kubernetes", wandb="http://w.example"))
    run_checks(list_place_checks(find_executor(project), Limits()))


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ("step: loss", "metrics: in deployer.yaml uses loss as its step, so it is not a metric"),
        ("names: acc", "metrics: in deployer.yaml reads acc, but not loss"),
        ("step: epoch", ""),
    ],
)
def test_a_metric_that_is_not_read_is_doubted(tmp_path: Path, metrics: str, said: str) -> None:
    (tmp_path / "deployer.yaml").write_text(f"metrics: {{from: stdout, {metrics}}}\n")
    project = read_project(tmp_path, Flags(on="local"))
    found = doubt_metrics(project, {"metric": {"name": "loss"}})
    assert [one.message for one in found] == [said] * bool(said)
