"""A user's own script: writes with `wandb`, reads back with `wandb.Api()`, notes what differs.

It knows W&B's documentation and nothing of the server; the session runs it with the plain SDK.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import wandb

PROJECT = f"script-{os.getpid()}"
PATH = f"{os.environ['WANDB_ENTITY']}/{PROJECT}"
CONFIG = {
    "lr": 0.1,
    "model": {"depth": 3, "betas": [0.9, 0.999]},
    "flag": True,
    "nothing": None,
    "text": "ü ✓",
    "a.b": 1,
}
differs: dict[str, list[str]] = {}


def same(what: str, found: Any, written: Any) -> None:
    """Note what does not read back as it was written."""
    if found != written:
        differs[what] = [repr(found), repr(written)]


def refused(what: str, word: str, act: Callable[[], Any]) -> None:
    """Note what the server should refuse with a sentence that names the reason, and does not."""
    try:
        act()
    except Exception as error:  # whatever the SDK makes of a refusal
        same(what, word in str(error), True)
    else:
        differs[what] = ["accepted", "refused"]


def plain(value: Any) -> Any:
    """Return a summary as plain mappings."""
    return json.loads(json.dumps(value, default=dict))


def start(run_id: str, /, **settings: Any) -> Any:
    """Start a run."""
    return wandb.init(project=PROJECT, id=run_id, **settings)


def read(name: str) -> Any:
    """Read a run back, with a client that has nothing cached."""
    return wandb.Api().run(f"{PATH}/{name}")


def one_run_in_full() -> None:
    """Everything that `wandb.init` and a run take."""
    words: dict[str, Any] = {"group": "g", "job_type": "train", "notes": "two\nlines"}
    run = start("full", name="A name", tags=["b", "a"], config=CONFIG, **words)
    run.config.update({"late": 5})
    for i in range(10):
        run.log(
            {"loss": 1 / (i + 1), "deep": {"a": i, "b": {"c": 2 * i}}, "s": "x", "epoch": i // 2}
        )
    run.log({"odd": math.inf, "page": wandb.Html("<b>hi</b>")})
    table = wandb.Table(columns=["n", "text"], data=[[1, "a"], [2, "ü"]])
    run.log({"table": table})
    artifact = wandb.Artifact("ds", type="dataset", metadata={"k": [1, 2]})
    with artifact.new_file("inner/x.txt") as file:
        file.write("content")
    run.log_artifact(artifact, aliases=["best"]).wait()
    run.summary["best"] = {"x": {"y": 1}}
    sys.stdout.write("hello out\n")
    run.alert("title", "text", level="WARN")
    run.finish()
    back = read("full")
    same("config", back.config, {**CONFIG, "late": 5})
    shown = (back.name, back.group, back.job_type, back.notes, sorted(back.tags), back.state)
    same("words", shown, ("A name", "g", "train", "two\nlines", ["a", "b"], "finished"))
    same("summary", plain(back.summary["best"]), {"x": {"y": 1}})
    same("nested summary", plain(back.summary["deep"]), {"a": 9, "b": {"c": 18}})
    same("user", back.user.username, os.environ["WANDB_ENTITY"])
    same("output", "hello out" in Path(back.file("output.log").download().name).read_text(), True)
    same("html", any(file.name.startswith("media/html/") for file in back.files()), True)
    history_reads_back(back)
    stored = wandb.Api().artifact(f"{PATH}/ds:best")
    same("artifact", (Path(stored.download()) / "inner/x.txt").read_text(), "content")
    same("metadata", stored.metadata, {"k": [1, 2]})
    logged = wandb.Api().artifact(f"{PATH}/run-full-table:latest").get("table")
    same("table", logged.data, table.data)


def history_reads_back(back: Any) -> None:
    """The history whole, in parts, by keys, in small pages, and sampled."""
    rows = list(back.scan_history())
    same("steps", [row["_step"] for row in rows], list(range(12)))
    same("row", [rows[3][key] for key in ("loss", "deep.a", "deep.b.c", "s")], [0.25, 3, 6, "x"])
    same("infinite", rows[10]["odd"], math.inf)
    for size in (3, 1000):
        kept = [row["deep.b.c"] for row in back.scan_history(["deep.b.c"], page_size=size)]
        same(f"keys, pages of {size}", kept, [2 * i for i in range(10)])
        part = [row["epoch"] for row in back.scan_history(["epoch"], size, min_step=2, max_step=7)]
        same(f"part, pages of {size}", part, [1, 1, 2, 2, 3])
        whole = [row["_step"] for row in back.scan_history(page_size=size, min_step=2, max_step=7)]
        same(f"whole part, pages of {size}", whole, [2, 3, 4, 5, 6])
    sampled = back.history(keys=["loss"], x_axis="epoch", pandas=False)
    same("sampled", [row["epoch"] for row in sampled], [i // 2 for i in range(10)])
    same("fewer", len(back.history(samples=4, pandas=False)), 4)
    same("system", isinstance(back.history(stream="system", pandas=False), list), True)


def defined_metrics() -> None:
    """Globs, step metrics, and every aggregation of a summary."""
    run = start("metrics")
    run.define_metric("epoch", hidden=True)
    run.define_metric("train/*", step_metric="epoch", summary="min,max,mean")
    for kind in ("min", "max", "mean", "last", "first", "none"):
        run.define_metric(f"{kind}_v", summary=kind)
    for epoch, value in enumerate([3.0, 1.0, 2.0]):
        kinds = ("min", "max", "mean", "last", "first", "none")
        run.log({"epoch": epoch, "train/loss": value, **{f"{kind}_v": value for kind in kinds}})
    run.finish()
    summary = plain(dict(read("metrics").summary))
    same("glob", summary["train/loss"], {"min": 1, "max": 3, "mean": 2})
    for kind, value in (("min", 1), ("max", 3), ("mean", 2), ("last", 2), ("first", 3)):
        same(f"summary {kind}", summary[f"{kind}_v"], {kind: value})
    same("summary none", "none_v" in summary, False)


def resuming() -> None:
    """The four modes, forks and rewinds, and an id that is used again."""
    refused("must", "resume", lambda: start("nowhere", resume="must"))
    run = start("res", resume="allow", config={"a": 1}, tags=["x"])
    for value in range(4):
        run.log({"v": value})
    run.summary["kept"] = 7
    run.finish()
    run = start("res", resume="must", config={"b": 2})
    same("starting step", (run.resumed, run.starting_step), (True, 4))
    same(
        "resumed", (dict(run.config), run.summary["kept"], run.tags), ({"a": 1, "b": 2}, 7, ("x",))
    )
    run.log({"v": 4})
    run.finish(exit_code=3)
    back = read("res")
    rows = [(row["_step"], row["v"]) for row in back.scan_history()]
    same("resumed rows", (back.state, rows), ("failed", [(i, i) for i in range(5)]))
    wandb.teardown()
    refused("never", "resume", lambda: start("res", resume="never"))
    refused("fork", "cannot fork", lambda: start("forked", fork_from="res?_step=1"))
    refused("rewind", "cannot rewind", lambda: start("full", resume_from="full?_step=1"))
    wandb.teardown()
    run = start("res")
    run.log({"w": 9})
    run.finish()
    same("anew", [(row["_step"], row["w"]) for row in read("res").scan_history()], [(0, 9)])


def resumed_by_itself() -> None:
    """`resume="auto"` in another process after a death."""
    wandb.teardown()  # the children shall have a wandb-core of their own
    script = (
        f"import os, time, wandb\nrun = wandb.init(project={PROJECT!r}, resume='auto')\n"
        "print('run', run.id, run.resumed, flush=True)\nrun.log({'v': 1})\n"
    )
    died, back = (
        subprocess.run([sys.executable, "-c", script + end], capture_output=True, text=True)
        for end in ("time.sleep(1)\nos.kill(os.getpid(), 9)", "run.finish()")
    )
    first, again = died.stdout.split(), back.stdout.split()
    same("auto", (again[1], first[2], again[2]), (first[1], "False", "True"))


def filters_and_orders() -> None:
    """The filter language as `Api.runs` documents it, and both directions of an order."""
    for i in range(4):
        opt = {"name": "adam" if i % 2 else "sgd", "lr": 10.0**-i}
        words: dict[str, Any] = {"name": f"name-{i}", "tags": [f"t{i % 2}"], "group": "filtered"}
        run = start(f"f{i}", config={"x": i, "opt": opt}, **words)
        run.log({"y": (i - 2) ** 2} if i != 3 else {"z": 1})
        run.finish(exit_code=int(i == 3))
    for condition, expected in (
        ({"config.x": {"$gt": 0, "$lte": 2}}, [1, 2]),
        ({"config.x.value": {"$in": [0, 3]}}, [0, 3]),
        ({"config.opt.name": "adam"}, [1, 3]),
        ({"$or": [{"config.x": 0}, {"display_name": {"$regex": "-3$"}}]}, [0, 3]),
        ({"$nor": [{"tags": "t0"}, {"state": "failed"}], "config.x": {"$exists": True}}, [1]),
        ({"config.x": {"$not": {"$gte": 1}}}, [0]),
        ({"summary_metrics.y": {"$lt": 2}}, [1, 2]),
        ({"summary_metrics.z": {"$exists": True}}, [3]),
        ({"displayName": "name-2", "user.username": os.environ["WANDB_ENTITY"]}, [2]),
        ({"createdAt": {"$gt": "2020-01-01"}, "config.x": {"$ne": 1, "$nin": [0, 2]}}, [3]),
    ):
        same(json.dumps(condition), found_runs(condition, "+created_at"), expected)
    for order, expected in (
        ("-created_at", [3, 2, 1, 0]),
        ("+config.opt.lr", [3, 2, 1, 0]),
        ("+summary_metrics.y", [2, 1, 0, 3]),
        ("-summary_metrics.y", [0, 1, 2, 3]),
    ):
        same(order, found_runs({}, order), expected)
    same("length", len(wandb.Api().runs(PATH, filters={"group": "filtered"})), 4)
    refused("operator", "$near", lambda: found_runs({"config.x": {"$near": 1}}, "+created_at"))


def found_runs(condition: dict[str, Any], order: str) -> list[int]:
    """Return the numbers of the runs that a filter finds, two in each page."""
    filters = {"$and": [{"group": "filtered"}, condition]}
    found = wandb.Api().runs(PATH, filters=filters, order=order, per_page=2)
    return [int(run.id[1:]) for run in found]


def changes() -> None:
    """What `Run.update` and `Run.delete` change."""
    run = start("chg", config={"a": 1, "n": {"k": 1}}, tags=["one"])
    run.log({"v": 1})
    run.finish()
    back = read("chg")
    back.config["n"]["k"], back.summary["late"] = 2, {"q": 1}
    back.tags.append("two")
    back.notes, back.name, back.group = "written", "title", "moved"
    back.update()
    again = read("chg")
    same("changed config", again.config, {"a": 1, "n": {"k": 2}})
    same("changed summary", (plain(again.summary["late"]), again.summary["v"]), ({"q": 1}, 1))
    words = (again.tags, again.notes, again.name, again.group, again.state)
    same("changed words", words, (["one", "two"], "written", "title", "moved", "finished"))
    again.delete()
    refused("deleted", "chg", lambda: read("chg"))


def synced_later() -> None:
    """An offline run, brought by `wandb sync` twice."""
    run = wandb.init(project=PROJECT, id="off", mode="offline", config={"a": {"b": 1}})
    for value in range(5):
        run.log({"v": value})
    folder = Path(run.dir).parent
    run.finish()
    for _ in range(2):
        wandb_command = Path(sys.executable).with_name("wandb")
        subprocess.run([wandb_command, "sync", folder], check=True, capture_output=True)
        back = read("off")
        same("synced", [row["v"] for row in back.scan_history()], list(range(5)))
        same("synced run", (back.config, back.state), ({"a": {"b": 1}}, "finished"))


STEPS = (
    one_run_in_full,
    defined_metrics,
    resuming,
    resumed_by_itself,
    filters_and_orders,
    changes,
    synced_later,
)
