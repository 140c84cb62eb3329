"""What the public API of the unmodified SDK says of what is not there, not served, or deleted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import ServedBackend
from tests.stock import run_program

DELETED = """
import time, wandb
run = wandb.init(project="deleted", id="gone")
run.log({"loss": 1})
wandb.Api().run("deleted/gone").delete()
for step in range(3):
    run.log({"loss": step})
    run.config.update({f"at {step}": 1})
    time.sleep(1)
run.finish()
try:
    print("said: back as", wandb.Api().run("deleted/gone").state)
except wandb.errors.CommError as error:
    print("said:", error)
try:
    wandb.init(project="deleted", id="gone").finish()
    print("said: begun again")
except wandb.errors.CommError as error:
    print("said:", error)
"""


@pytest.mark.slow(seconds=10)
def test_a_run_that_is_deleted_while_it_runs_stays_deleted(
    backend: ServedBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_X_FILE_STREAM_TRANSMIT_INTERVAL", "0.2")
    lines = run_program(backend, DELETED).splitlines()
    assert [line for line in lines if line.startswith("said: ")] == [
        "said: Could not find run <Run tester/deleted/gone (not found)>",
        "said: run gone was previously deleted; try again with a new run id",
    ]


ASKED = """
import json, pathlib, sys, wandb
said = {}

def ask(name, act):
    try:
        said[name] = repr(act())
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"

def log(run, name, **settings):
    artifact = wandb.Artifact(name, "dataset", **settings)
    with artifact.new_file("x") as file:
        file.write(name)
    return run.log_artifact(artifact).wait()

def start(**settings):
    with wandb.init(project="asked", **settings):
        pass

with wandb.init(project="asked", id="one", name="a\\0b") as run:
    ask("early", lambda: log(run, "early").history_step)
    run.log({"loss": 1}, step=7)
    run.log({"loss": 1}, step=20)
    ask("late", lambda: log(run, "late").history_step)
    ask("region", lambda: log(run, "there", storage_region="mars"))
    for name in (" ", "kept.txt"):
        pathlib.Path(name).write_text("x")
        run.save(name)
    run.use_artifact("early:latest")
with wandb.init(project="asked", id="user") as run:
    run.use_artifact("late:latest")
api = wandb.Api()
run, late = api.run("asked/one"), api.artifact("asked/late:latest")
ask("name", lambda: run.name)
ask("kept", lambda: [file.name for file in run.files() if file.name.endswith(("txt", " "))])
ask("download", lambda: run.file("gone").download())
ask("restore", lambda: wandb.restore("gone", run_path="tester/asked/one"))
ask("upload", lambda: run.upload_file(" "))
ask("entity", lambda: [run.id for run in api.runs("asked", filters={"entity": "tester"})])
ask("class", lambda: [r.id for r in api.runs("asked", {"name": {"$regex": r"^[[:lower:]]n\\pL$"}})])
ask("reports", lambda: list(api.reports("tester/asked")))
ask("create_team", lambda: api.create_team("ours"))
ask("registries", lambda: list(api.registries()))
ask("rewind", lambda: start(resume_from="one?_step=1"))
ask("fork", lambda: start(fork_from="one?_step=1"))
api.run("asked/user").delete()
ask("used_by without the run", late.used_by)
api.artifact("asked/late:latest").delete(delete_aliases=True)
ask("used_by without the artifact", late.used_by)
pathlib.Path("said.json").write_text(json.dumps(said))
"""


@pytest.mark.slow(seconds=15)
def test_what_is_not_there_or_not_served_is_said_in_a_sentence(
    backend: ServedBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_program(backend, ASKED)
    said = json.loads((tmp_path / "said.json").read_text())
    exact = {
        "early": "None",
        "late": "19",
        "name": "'a b'",
        "kept": "['kept.txt', 'requirements.txt']",
        "restore": "ValueError: File gone not found in tester/asked/one.",
        "entity": "['one', 'user']",
        "class": "['one']",
        "used_by without the run": "[]",
    }
    assert {name: said[name] for name in exact} == exact
    parts = {
        "region": "this server has no storage region 'mars': leave it out",
        "download": "file gone not found",
        "upload": "invalid file name ' ': no file can be saved under it",
        "reports": "this server keeps no reports",
        "create_team": "this server has no team ours: each user has an entity of their own",
        "registries": "is not enabled on this wandb server",  # the SDK's own
        "rewind": "this server cannot rewind runs",
        "fork": "this server cannot fork runs",
        "used_by without the artifact": "artifact not found",
    }
    assert {name: text for name, text in parts.items() if text not in said[name]} == {}
