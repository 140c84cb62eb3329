"""What is checked before agents are started."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.errors import ConfigError
from deployer.executors.registry import find_target
from deployer.launch.check import check_reach
from deployer.wandb_api.server import Inside
from tests.project_files import read_project


def test_pods_do_not_reach_this_machines_own_address(tmp_path: Path) -> None:
    project = read_project(tmp_path)
    check_reach(find_target(project, "local"), "http://127.0.0.1:8080")
    check_reach(find_target(project, "kubernetes"), "http://10.0.0.1:8080")
    with pytest.raises(ConfigError) as raised:
        check_reach(find_target(project, "kubernetes"), "http://localhost:8080")
    assert raised.value.message == (
        "--on: pods in a cluster do not reach http://localhost:8080, an address of this machine "
        "alone"
    )
    assert raised.value.hint == (
        "deployer backend down; deployer backend serve --host ADDRESS, one that pods reach"
    )


def test_only_agents_in_the_cluster_reach_the_backend_that_is_in_it(tmp_path: Path) -> None:
    url = "http://sweep-backend.sweeps.svc:8080"
    inside = Inside("gke", url, "http://127.0.0.1:20001")
    project = read_project(tmp_path)
    check_reach(find_target(project, "gke"), url, inside)
    for on in ("local", "kubernetes"):
        with pytest.raises(ConfigError) as raised:
            check_reach(find_target(project, on), url, inside)
        assert raised.value.message == (
            f"--on: agents on {on} do not reach {url}, the embedded backend of --on gke"
        )
        assert raised.value.hint == "start them there: --on gke"
