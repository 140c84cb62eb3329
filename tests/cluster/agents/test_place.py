"""Agents are found where they were started, whatever context is current by then."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from deployer.wandb_api.server import Server
from tests.cluster.bed import SECTION, TRAINER
from tests.cluster.cluster import Cluster
from tests.cluster.shell import Shell, open_shell


def write_contexts(cluster: Cluster, path: Path, namespace: str, current: str) -> None:
    """Write a kubeconfig of two contexts, `lab` with that namespace and `home` with another."""
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    [one] = content["contexts"]
    content["contexts"] = [
        {"name": name, "context": {**one["context"], "namespace": inside}}
        for name, inside in (("lab", namespace), ("home", "default"))
    ]
    path.write_text(yaml.safe_dump({**content, "current-context": current}))


def list_agents(shell: Shell, *words: str) -> list[str]:
    listed = json.loads(shell.deployer("agents", "list", "-o", "json", *words).stdout)
    return [agent["name"] for agent in listed]


def test_a_sweep_keeps_the_context_and_namespace_of_its_agents(
    cluster: Cluster, namespace: str, server: Server, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    write_contexts(cluster, kubeconfig, namespace, "home")
    shell = open_shell(tmp_path / "shell", kubeconfig, server)
    shell.write("train.py", TRAINER)
    grid = {"lr": {"values": [0.1, 0.2]}, "seconds": {"value": 120}}
    shell.write("sweep.yaml", {"program": "train.py", "method": "grid", "parameters": grid})
    shell.write("deployer.yaml", {"kubernetes": SECTION})
    shell.deployer("-n", namespace, "up", "sweep.yaml", "--project", namespace, "--detach")
    [agent] = list_agents(shell)
    assert list_agents(shell, "-n", "default") == []
    nothing = shell.deployer("down", "-ndefault")
    look = f"--on kubernetes --context home --namespace {namespace}"
    assert "were started elsewhere before; see them: deployer agents list" in nothing.stderr
    assert nothing.stderr.rstrip().endswith(look)

    everything = shell.deployer("down", "--all").stderr  # in the current context
    said = "not checked, but you have started agents there: deployer down --all"
    assert f"{said} {look}" in everything

    write_contexts(cluster, kubeconfig, namespace, "lab")
    assert list_agents(shell, "--context", "home", "-n", namespace) == [agent]
    ended = json.loads(shell.deployer("down", "-o", "json").stdout)
    assert ended["ended"] == [agent]
