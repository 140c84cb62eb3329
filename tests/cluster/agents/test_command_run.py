"""`deployer run` in a pod: its words arrive as they were typed, with no wandb in the script."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.bed import SECTION, serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.shell import open_shell
from tests.cluster.tenants import make_tenant
from tests.sweeps.test_command_run import HOSTILE

SCRIPT = """
import json, sys
with open("words.json") as file:
    assert sys.argv[1:] == json.load(file), sys.argv
print("all words are here")
"""


def test_a_command_runs_in_a_pod_word_for_word(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    with serve_for_pods(cluster, tmp_path / "backend") as server:
        shell = open_shell(tmp_path / "project", make_tenant(cluster, namespace), server)
        words = HOSTILE[2:]
        shell.write("plain.py", SCRIPT)
        shell.write("words.json", json.dumps(words))
        section = {**SECTION, "namespace": namespace}
        shell.write("deployer.yaml", {"on": "kubernetes", "kubernetes": section})
        shell.run("git", "init", "--quiet")
        shell.run("git", "add", "words.json")
        command = ("run", "--", "python", "plain.py", *words)
        refused = shell.try_deployer(*command)
        assert "hint: git add plain.py" in refused.stderr
        shell.run("git", "add", "plain.py")
        done = shell.deployer(*command)
        logs = shell.deployer("agents", "logs").stdout
        shell.deployer("down")
    assert "1/1 configurations finished, 0 duplicates, 0 lost" in done.stdout
    assert "all words are here" in logs
