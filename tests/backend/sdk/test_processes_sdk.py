"""Several `wandb.init` under one run's id, by the unmodified SDK: ranks at once, folds in turn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from deployer.model import SweepPath
from deployer.sweeps.doubts import list_doubts
from deployer.sweeps.recount import verify_sweep
from deployer.sweeps.results import build_results
from deployer.wandb_api.client import Client as OurClient
from deployer.wandb_api.operations import get_snapshot, get_viewer
from deployer.wandb_api.server import Server
from tests.backend.client import Client
from tests.conftest import ServedBackend
from tests.stock import start_wandb_agent, wandb_sweep

SCRIPT = """
import argparse, os, pathlib, time
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--kind")
if parser.parse_args().kind == "ranks":
    begun, rank = pathlib.Path("begun"), int(os.fork() == 0)
    while rank and not begun.exists():
        time.sleep(0.1)
    run = wandb.init()
    begun.touch()
    for step in range(3 + rank):
        run.log({"loss": 100 * rank + step})
    # Rank 0 is heard of until rank 1 has ended: whom nobody hears of counts as killed.
    while not rank and not (ended := os.waitpid(0, os.WNOHANG))[0]:
        print("at work", flush=True)
        time.sleep(0.5)
    assert rank or ended[1] == 0
    run.finish()
else:
    for fold in range(2):
        own = f"fold-{fold}"
        run = wandb.init(reinit=True, name=own, job_type=own, tags=[own], config={"fold": fold})
        run.log({"fold_loss": fold})
        run.log({"fold_loss": fold + 10})
        run.finish()
    run = wandb.init()
    run.log({"loss": 7})
"""
SWEEP = {
    "program": "train.py",
    "method": "grid",
    "metric": {"name": "loss", "goal": "minimize"},
    "parameters": {"kind": {"values": ["ranks", "folds"]}},
}


@pytest.mark.slow(seconds=15)
def test_ranks_and_folds_keep_their_rows_apart(
    backend: ServedBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FILE_STREAM_TRANSMIT_INTERVAL", "GRAPHQL_RETRY_WAIT_MAX_SECONDS"):
        monkeypatch.setenv(f"WANDB_X_{name}", "1")
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(SWEEP))
    path = wandb_sweep(backend, tmp_path / "sweep.yaml", "processes")
    agents = [start_wandb_agent(backend, tmp_path, path) for _ in range(2)]
    assert [agent.wait(100) for agent in agents] == [0, 0]
    client = OurClient(backend.url, backend.key)
    snapshot = get_snapshot(client, SweepPath(*path.split("/")))
    name = snapshot.sweep.path.sweep_id
    losses = {run.config["kind"]: run.summary["loss"] for run in snapshot.runs}
    assert losses == {"ranks": 2, "folds": 7}
    ranks, folds = (f"{name}-{number}" for number in (0, 1))
    apart = {ranks: (f"{ranks}-2",), folds: (f"{folds}-2", f"{folds}-3")}
    assert {run.run_id: run.apart for run in snapshot.runs} == apart
    parts = [Client.of(backend, "processes").run(part) for part in sum(apart.values(), ())]
    assert [part["historyLineCount"] for part in parts] == [4, 2, 2]
    for fold, part in enumerate(parts[1:]):
        own, config = f"fold-{fold}", json.loads(part["config"])
        assert (part["displayName"], part["jobType"], part["tags"]) == (own, own, [own])
        assert (config["fold"]["value"], config["kind"]["value"]) == (fold, "folds")
    last = Client.of(backend, "processes").run(folds)
    assert (last["displayName"], last["jobType"], last["tags"]) == (folds, None, [])
    assert "fold" not in json.loads(last["config"])
    results = build_results(snapshot.sweep, snapshot.runs)
    assert results.coverage.sentence() == "2/2 configurations finished, 0 duplicates, 0 lost"
    assert {row.note for row in results.rows} == {
        f"wandb.init was called again: see {', '.join(names)}" for names in apart.values()
    }
    [doubt] = list_doubts(results)
    assert "2 of 2 runs called wandb.init more than once" in doubt
    judged = verify_sweep(Server(client, get_viewer(client), embedded=True), snapshot)
    assert judged.good
    assert f"other wandb.init calls are in 3 more runs, first {ranks}-2" in judged.sentence()
