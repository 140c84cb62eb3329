"""What an agent of this machine is started with."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from deployer.agent.environment import agent_environment
from deployer.agent.settings import AgentSettings, parse_settings
from deployer.executors.local.agent_folder import AgentFolder, AgentSpec
from deployer.executors.local.supervisors import build_environment, list_gpus

SETTINGS = AgentSettings("me/proj/sweep", "http://127.0.0.1:1", "sweep-1", "/agents/sweep-1")


def folder(tmp_path: Path, gpus: tuple[str, ...] = ()) -> AgentFolder:
    """Return the folder of an agent that was not started."""
    environment = {"EPOCHS": "3"}
    spec = AgentSpec(
        "sweep-1", "me/proj/s", "http://127.0.0.1:1", "/", gpus, environment, 1.0, time.time()
    )
    return AgentFolder(tmp_path, spec)


def fake_nvidia_smi(tmp_path: Path, text: str) -> dict[str, str]:
    """Put a program in the place of the driver's, and return an environment that finds it."""
    command = tmp_path / "nvidia-smi"
    command.write_text(f"#!/bin/sh\n{text}\n")
    command.chmod(0o755)
    return {"PATH": str(tmp_path)}


def test_the_agents_own_breakers_are_off_whatever_the_user_set() -> None:
    found = agent_environment(SETTINGS, {"WANDB_AGENT_DISABLE_FLAPPING": "false"})
    assert found["WANDB_AGENT_DISABLE_FLAPPING"] == "true"
    assert int(found["WANDB_AGENT_MAX_INITIAL_FAILURES"]) > 1_000_000


def test_the_users_retry_settings_are_kept_and_runs_of_others_are_not_inherited() -> None:
    given = {"WANDB_X_GRAPHQL_RETRY_MAX": "7", "WANDB_RUN_ID": "outer", "WANDB_SERVICE": "x"}
    found = agent_environment(SETTINGS, given)
    assert found["WANDB_X_GRAPHQL_RETRY_MAX"] == "7"
    assert found["WANDB_X_FILE_STREAM_RETRY_WAIT_MAX_SECONDS"] == "5"
    assert "WANDB_RUN_ID" not in found
    assert "WANDB_SERVICE" not in found
    assert found["WANDB_DIR"] == "/agents/sweep-1"


def test_an_agent_of_a_pod_is_told_all_by_its_container() -> None:
    given = {
        "DEPLOYER_SWEEP_PATH": "me/proj/sweep",
        "DEPLOYER_AGENT": "sweep-1",
        "DEPLOYER_AGENTS_FOLDER": "/agents",
        "DEPLOYER_AGENT_GRACE_SECONDS": "20",
    }
    told = parse_settings([], given)
    assert (told.sweep_path, told.name, told.folder) == (
        "me/proj/sweep",
        "sweep-1",
        "/agents/sweep-1",
    )
    assert told.grace_seconds == 20
    # An agent that a run starts has its own.
    assert agent_environment(told, given).keys() & given.keys() == {"DEPLOYER_AGENT"}
    assert parse_settings(["a/b/c", "--folder=/other"], given).folder == "/other"
    above = {**given, "DEPLOYER_AGENT_FOLDER": "/of/the/image"}
    assert parse_settings([], above).folder == "/agents/sweep-1"
    with pytest.raises(SystemExit):
        parse_settings([], {})


def test_runs_on_cpu_get_one_thread_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    found = build_environment(folder(tmp_path), "k", {"OMP_NUM_THREADS": "4"})
    assert (found["OMP_NUM_THREADS"], found["MKL_NUM_THREADS"]) == ("4", "1")
    assert "CUDA_VISIBLE_DEVICES" not in found
    assert (found["EPOCHS"], found["WANDB_API_KEY"]) == ("3", "k")


def test_agents_on_one_gpu_divide_cores_and_its_memory(tmp_path: Path) -> None:
    several = folder(tmp_path, ("3",))
    several = replace(several, spec=replace(several.spec, agents=1 << 20, on_gpu=3))
    found = build_environment(several, "k", {"MKL_NUM_THREADS": "5"})
    assert (found["OMP_NUM_THREADS"], found["MKL_NUM_THREADS"]) == ("1", "5")
    assert found["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.300"


def test_an_agent_with_a_gpu_sees_that_one_alone(tmp_path: Path) -> None:
    found = build_environment(folder(tmp_path, ("3",)), "k", {"CUDA_VISIBLE_DEVICES": "1,3"})
    assert found["CUDA_VISIBLE_DEVICES"] == "3"
    assert "OMP_NUM_THREADS" not in found


@pytest.mark.parametrize(
    ("chosen", "gpus"),
    [
        ("0,1", ("0", "1")),
        ("2", ("2",)),
        ("", ()),
        ("-1", ()),
        ("0,-1,1", ("0",)),
        ("GPU-8f1a, GPU-77c2", ("GPU-8f1a", "GPU-77c2")),
    ],
)
def test_chosen_gpus_are_read_as_cuda_reads_them(chosen: str, gpus: tuple[str, ...]) -> None:
    assert list_gpus({"CUDA_VISIBLE_DEVICES": chosen}) == gpus


def test_gpus_are_counted_by_the_driver(tmp_path: Path) -> None:
    lines = "GPU 0: NVIDIA H200 (UUID: GPU-a)\n  MIG 1g.10gb Device 0: x\nGPU 1: NVIDIA H200"
    found = fake_nvidia_smi(tmp_path, f"/bin/cat <<END\n{lines}\nEND")
    assert list_gpus(found) == ("0", "1")


def test_a_driver_that_does_not_answer_means_no_gpu(tmp_path: Path) -> None:
    assert list_gpus(fake_nvidia_smi(tmp_path, "echo Failed; exit 9")) == ()
    assert list_gpus({"PATH": str(tmp_path / "nothing")}) == ()
