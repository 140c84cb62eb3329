"""A user's own script: logs all kinds of files and artifacts, and says what reads back otherwise.

It is copied into an empty folder and run with the plain SDK of whatever version.
"""

from __future__ import annotations

import json
import os
import wave
from pathlib import Path
from typing import Any

import wandb

PROJECT = "artifact-script"
EXPECTED = {
    "logged": ["v0", 4, ["best", "latest"]],
    "downloaded": {
        "a.txt": b"alpha".hex(),
        "far.csv": b"x,y\n1,2\n".hex(),
        "inner/b.bin": bytes(range(10)).hex(),
    },
    "equal": True,
    "table": [[1, "a"], [2, "ü"]],
    "model": True,
    "same": ["v1", ["again", "first", "latest"]],
    "draft": ["far.csv", "inner/b.bin", "table.table.json", "weights.pt"],
    "pointed": "alpha",
    "runs": ["maker", "user"],
    "described": ["D", {"k": [1, 2]}, ["best"]],
    "files": ["a.txt", "far.csv", "inner/b.bin", "table.table.json"],
    "entry": "alpha",
    "types": ["code", "dataset", "model", "run_table"],
    "collections": ["pointer", "ds"],
    "versions": ["ds:v2", "ds:v1", "ds:v0"],
    "made": ["code", "dataset", "model", "run_table"],
    "used": ["ds:v0", "net:v0"],
    "run_files": [
        "code/artifact_script.py",
        "config.yaml",
        "data/a.txt",
        "inner/b.bin",
        "late.txt",
        "output.log",
        "requirements.txt",
        "wandb-metadata.json",
        "wandb-summary.json",
    ],
    "media": ["audio", "html", "table"],
    "late": "late",
    "left": False,
    "changed": ["v0", ["good"], False],
    "after": ["ds:v2", "ds:v0"],
    "refused": True,
    "renamed": ["C", ["t"]],
    "deleted": False,
}
found: dict[str, Any] = {}


def write_inputs() -> None:
    """Write what will be logged."""
    Path("data/inner").mkdir(parents=True)
    Path("data/a.txt").write_text("alpha")
    Path("data/inner/b.bin").write_bytes(bytes(range(256)) * 300)
    Path("far.csv").write_text("x,y\n1,2\n")
    Path("weights.pt").write_bytes(b"weights" * 100)
    Path("late.txt").write_text("early")
    with wave.open("tone.wav", "wb") as tone:
        tone.setnchannels(1)
        tone.setsampwidth(2)
        tone.setframerate(8000)
        tone.writeframes(b"\0\1" * 400)


def log_everything() -> None:
    """Log media, a table, code, files by each policy, a model and an artifact."""
    with wandb.init(project=PROJECT, name="maker", settings=wandb.Settings(save_code=True)) as run:
        table = wandb.Table(columns=["n", "text"], data=[[1, "a"], [2, "ü"]])
        run.log({"table": table, "html": wandb.Html("<b>hi</b>"), "sound": wandb.Audio("tone.wav")})
        artifact = wandb.Artifact("ds", type="dataset", description="D", metadata={"k": [1, 2]})
        artifact.add_dir("data")
        artifact.add_reference(f"file://{os.path.abspath('far.csv')}")
        artifact.add(table, "table")
        run.log_artifact(artifact, aliases=["best"]).wait()
        found["logged"] = [artifact.version, artifact.file_count, sorted(artifact.aliases)]
        run.log_model("weights.pt", "net")
        run.log_code(".", include_fn=lambda path: path.endswith(".csv"))
        run.save("data/*.txt", policy="now")
        run.save("data/inner/b.bin", base_path="data", policy="live")
        run.save("late.txt", policy="end")
        Path("late.txt").write_text("late")


def use_everything() -> None:
    """Use the artifact and the model in another run; log the same and a changed content."""
    with wandb.init(project=PROJECT, name="user") as run:
        used = run.use_artifact("ds:best")
        folder = Path(used.download())
        found["downloaded"] = {
            str(path.relative_to(folder)): path.read_bytes().hex()[:20]
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.name.endswith(".table.json")
        }
        found["equal"] = (folder / "inner/b.bin").read_bytes() == bytes(range(256)) * 300
        read: Any = used.get("table")
        found["table"] = read.data
        found["model"] = Path(run.use_model("net:latest")).read_bytes() == b"weights" * 100
        same = wandb.Artifact("ds", type="dataset")
        for entry in ("first", "again"):
            same = wandb.Artifact("ds", type="dataset")
            same.add_file("data/a.txt")
            run.log_artifact(same, aliases=[entry]).wait()
        found["same"] = [same.version, sorted(same.aliases)]
        draft = used.new_draft()
        draft.remove("a.txt")
        draft.add_file("weights.pt")
        run.log_artifact(draft).wait()
        found["draft"] = sorted(draft.manifest.entries)
        pointer = wandb.Artifact("pointer", type="dataset")
        pointer.add_reference(used.get_entry("a.txt"), name="there.txt")
        run.log_artifact(pointer).wait()
        found["pointed"] = (Path(pointer.download()) / "there.txt").read_text()


def read_with_the_api() -> None:
    """Ask the public API for everything, then change and delete."""
    api = wandb.Api()
    artifact = api.artifact(f"{PROJECT}/ds:v0", type="dataset")
    maker, user = artifact.logged_by(), artifact.used_by()[0]
    found["runs"] = [maker.name, user.name]
    found["described"] = [artifact.description, artifact.metadata, sorted(artifact.aliases)]
    found["files"] = [file.name for file in artifact.files()]
    found["entry"] = Path(artifact.get_entry("a.txt").download("one")).read_text()
    found["types"] = sorted(kind.name for kind in api.artifact_types(PROJECT))
    found["collections"] = [row.name for row in api.artifact_collections(PROJECT, "dataset")]
    found["versions"] = [row.name for row in api.artifacts("dataset", f"{PROJECT}/ds")]
    # The title of the code's collection differs between SDK versions.
    found["made"] = sorted(row.type for row in maker.logged_artifacts())
    found["used"] = sorted(row.name for row in user.used_artifacts())
    names = [file.name for file in maker.files(per_page=3)]
    found["run_files"] = sorted(name for name in names if not name.startswith("media/"))
    found["media"] = sorted({name.split("/")[1] for name in names if name.startswith("media/")})
    found["late"] = maker.file("late.txt").download("late-again").read()
    maker.file("late.txt").delete()
    found["left"] = "late.txt" in [file.name for file in maker.files()]
    artifact.aliases.remove("best")
    artifact.aliases.append("kept")
    artifact.tags = ["good"]
    artifact.save()
    again = api.artifact(f"{PROJECT}/ds:kept")
    found["changed"] = [again.version, again.tags, api.artifact_exists(f"{PROJECT}/ds:best")]
    api.artifact(f"{PROJECT}/ds:v1").delete(delete_aliases=True)
    found["after"] = [row.name for row in api.artifacts("dataset", f"{PROJECT}/ds")]
    refused = refusal_of(lambda: again.link(f"{PROJECT}/portfolio"))
    found["refused"] = "this server has no registry" in refused
    collection = api.artifact_collection("dataset", f"{PROJECT}/ds")
    collection.description, collection.tags, collection.name = "C", ["t"], "renamed"
    collection.save()
    collection = api.artifact_collection("dataset", f"{PROJECT}/renamed")
    found["renamed"] = [collection.description, list(collection.tags)]
    collection.delete()
    found["deleted"] = api.artifact_collection_exists(f"{PROJECT}/renamed", "dataset")


def refusal_of(action: Any) -> str:
    """Return the sentence with which the server refuses."""
    try:
        action()
    except wandb.errors.CommError as error:
        return str(error)
    return "not refused"


write_inputs()
log_everything()
use_everything()
read_with_the_api()
differs = {
    name: [value, EXPECTED[name]] for name, value in found.items() if value != EXPECTED[name]
}
Path("differs.json").write_text(json.dumps(differs))
