"""`deployer results get`: from the folder of this machine and from artifacts."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deployer.__main__ import run as run_command
from deployer.config.paths import outputs_folder
from deployer.data.store import PARTIAL_FOLDER
from deployer.sweeps.records import Records, SweepRecord
from tests.backend.artifact_client import ArtifactClient
from tests.conftest import ServedBackend
from tests.outputs.conftest import Kept, make_sweep

MODEL = b"weights" * 1000


def test_all_finished_runs_each_in_a_folder_of_its_own(
    kept: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    kept.write(kept.runs[0], {"best.pt": MODEL, "deep er/ü.json": b"{}"})
    kept.get()
    assert kept.read() == {"first/best.pt": MODEL, "first/deep er/ü.json": b"{}"}
    shown = capsys.readouterr()
    assert f"results/{kept.sweep_id}/first" in shown.out
    assert shown.err.splitlines()[-1] == "run second has no outputs"


def test_links_to_files_are_followed_alone_and_said(
    kept: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    kept.write(kept.runs[0], {"deep/model-9.pt": MODEL})
    folder = outputs_folder() / kept.sweep_id / kept.runs[0]
    (folder / "best.pt").symlink_to("deep/model-9.pt")
    (folder / "latest").symlink_to("deep")
    (folder / "gone").symlink_to("nowhere")
    (folder / "deep" / "epoch.pt").symlink_to(kept.folder / "epoch.pt")
    (kept.folder / "epoch.pt").write_bytes(b"9")
    kept.get("first")
    assert kept.read() == {
        "first/deep/model-9.pt": MODEL,
        "first/best.pt": MODEL,
        "first/deep/epoch.pt": b"9",
    }
    said = capsys.readouterr().err.splitlines()
    run = f"run {kept.runs[0]}"
    assert [line for line in said if line.startswith("run")] == [
        f"{run}: skipping latest: it is a link to a folder (deep)",
        f"{run}: skipping gone: it is a link to nothing (nowhere)",
        f"{run}: deep/epoch.pt is a link: copying its target {kept.folder / 'epoch.pt'}",
    ]


def test_the_best_run_or_those_that_are_named(kept: Kept) -> None:
    for run in kept.runs:
        kept.write(run, {"model": run.encode()})
    kept.get("--best", "--to", "best")
    assert kept.read("best") == {"first/model": kept.runs[0].encode()}
    kept.get("second", kept.runs[1], "--to", "named")
    assert kept.read("named") == {"second/model": kept.runs[1].encode()}


def test_artifacts_come_back_the_outputs_first(
    kept: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    run = kept.runs[0]
    kept.log(run, f"run-{run}-output", {"best.pt": MODEL}, artifactTypeName="output")
    kept.log(run, "model", {"weights": b"old"}, artifactTypeName="model")
    kept.log(run, "model", {"weights": b"new", "in/side": b"x"}, artifactTypeName="model")
    kept.log(run, "code-of-it", {"train.py": b"pass"}, artifactTypeName="code")
    expected = {
        "first/best.pt": MODEL,
        "first/wandb-artifacts/model/weights": b"new",
        "first/wandb-artifacts/model/in/side": b"x",
    }
    for _ in range(2):  # what is known by MD5 alone is not something else the second time
        capsys.readouterr()
        kept.get("-o", "json")
        assert kept.read() == expected
        files = json.loads(capsys.readouterr().out)["runs"][0]["files"]
        assert {f"first/{one['path']}": one["sha256"] for one in files} == {
            path: hashlib.sha256(content).hexdigest() for path, content in expected.items()
        }


SAVE = """
import sys, wandb
wandb.Api().run(sys.argv[1]).upload_file("deep/model.json")
"""


@pytest.mark.slow
def test_files_that_the_sdk_has_saved_come_back(kept: Kept) -> None:
    (kept.folder / "deep").mkdir()
    (kept.folder / "deep" / "model.json").write_bytes(MODEL)
    run = f"{kept.path.rpartition('/')[0]}/{kept.runs[0]}"
    subprocess.run([sys.executable, "-c", SAVE, run], cwd=kept.folder, check=True)
    kept.get("--best")
    assert kept.read() == {"first/wandb-files/deep/model.json": MODEL}


def test_the_version_called_best_counts_more_than_the_newest(kept: Kept) -> None:
    for epoch, alias in enumerate(["old", "best", "latest"]):
        files = {"weights": str(epoch).encode()}
        logging = ArtifactClient(kept.client, kept.runs[0])
        logging.log("model", files, alias, artifactTypeName="model")
    kept.get("--best")
    assert kept.read() == {"first/wandb-artifacts/model/weights": b"1"}


def test_the_best_run_by_another_metric(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    for number, run in enumerate(kept.runs):
        kept.write(run, {"model": run.encode()})
        kept.client.log(run, [{"_step": 1, "loss": number, "eval/acc": number}], offset=1)
    kept.get("--best", "--metric", "eval/acc", "--goal", "maximize")
    assert kept.read() == {"second/model": kept.runs[1].encode()}
    for words, code, said in (
        (["--metric", "loss"], 2, "error: --metric: ranks runs, but --best is missing"),
        (["--best", "--metric", "eval/acc"], 2, "hint: add --goal minimize or --goal maximize"),
        (["--best", "--metric", "x", "--goal", "minimize"], 3, "no finished run logged x"),
    ):
        kept.get(*words, code=code)
        assert said in capsys.readouterr().err


def test_json_has_the_checksum_of_each_file(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    kept.write(kept.runs[0], {"best.pt": MODEL})
    kept.get("-o", "json")
    first, second = json.loads(capsys.readouterr().out)["runs"]
    sha256 = hashlib.sha256(MODEL).hexdigest()
    assert first["files"] == [{"path": "best.pt", "size_bytes": len(MODEL), "sha256": sha256}]
    assert first["folder"] == f"results/{kept.sweep_id}/first"
    assert (second["files"], second["folder"]) == ([], None)


def test_nothing_is_overwritten_silently(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    kept.write(kept.runs[0], {"best.pt": MODEL, "log": b"1"})
    kept.get()
    target = kept.folder / "results" / kept.sweep_id / "first"
    (target / "mine").write_text("mine")
    kept.get()
    assert "there already" in capsys.readouterr().out.lower()
    (target / "best.pt").write_bytes(MODEL[::-1])
    kept.get(code=1)
    assert capsys.readouterr().err.splitlines()[-2:] == [
        f"error: {target} already has 1 file with other content: best.pt",
        "hint: --overwrite replaces it; or choose another place",
    ]
    assert (target / "best.pt").read_bytes() == MODEL[::-1]
    kept.get("--overwrite")
    assert kept.read() == {"first/best.pt": MODEL, "first/log": b"1", "first/mine": b"mine"}


@pytest.mark.slow
def test_a_copy_that_is_killed_goes_on(kept: Kept) -> None:
    model = os.urandom(1 << 20) * 40
    kept.write(kept.runs[0], {"best.pt": model})
    target = kept.folder / "results" / kept.sweep_id / "first"
    words = [sys.executable, "-m", "deployer", "results", "get", kept.path, "-o", "json"]
    copying = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    while not any(one.stat().st_size for one in target.glob(f"{PARTIAL_FOLDER}/*")):
        assert copying.poll() is None, "it ended before it could be killed"
        time.sleep(0.001)
    copying.kill()
    copying.wait()
    assert not (target / "best.pt").exists()
    [partial] = target.glob(f"{PARTIAL_FOLDER}/*")
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    assert kept.read() == {"first/best.pt": model}
    assert not partial.exists()


def test_odd_and_equal_titles(backend: ServedBackend, folder: Path) -> None:
    titles = ["../../up", "a b/ü", "same", "Same", ".", "x" * 300]
    kept = make_sweep(backend, folder, titles)
    for run in kept.runs:
        kept.write(run, {"model": run.encode()})
    kept.get()
    ids = kept.runs
    assert kept.read() == {
        "up/model": ids[0].encode(),
        "a_b_ü/model": ids[1].encode(),
        f"same-{ids[2]}/model": ids[2].encode(),
        f"Same-{ids[3]}/model": ids[3].encode(),
        f"{ids[4]}/model": ids[4].encode(),
        f"{'x' * 100}/model": ids[5].encode(),
    }


def test_two_runs_of_one_title_are_told_apart_by_id(
    backend: ServedBackend, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = make_sweep(backend, folder, ["twin", "twin"])
    kept.write(kept.runs[0], {"model": b"0"})
    kept.get("twin", code=2)
    first, second = kept.runs
    assert capsys.readouterr().err.splitlines() == [
        "error: RUN: 2 runs are called 'twin'",
        f"hint: name one of: {first}, {second}",
    ]
    kept.get(first)
    assert kept.read() == {f"twin-{first}/model": b"0"}
    assert f"twin ({first})" in capsys.readouterr().out
    kept.get(second, code=3)
    assert f"run twin ({second}) has no outputs" in capsys.readouterr().err


def test_a_run_of_the_newest_sweep_needs_no_sweep(
    kept: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["results", "get", "first"]) != 0  # no sweep was created from this folder
    for number, (sweep, file) in enumerate(((kept.path, "a.yaml"), ("a/b/second", "b.yaml"))):
        record = SweepRecord(
            f"m{number}", sweep, kept.client.url, "", str(kept.folder), file, "", 2.0 - number
        )
        Records.load().add(record)
    kept.write(kept.runs[0], {"model": b"0"})
    assert run_command(["results", "get", "first"]) == 0
    assert run_command(["results", "get", kept.runs[0], "first", "--to", "twice"]) == 0
    assert kept.read() == kept.read("twice") == {"first/model": b"0"}
    capsys.readouterr()
    for word, said in (
        ("second", "sweep a/b/second not found"),  # a sweep's id counts more than a title
        ("best", "'best' is not a sweep"),
        ("third", "SWEEP: 'third' is neither a sweep nor a run of the newest sweep"),
    ):
        assert run_command(["results", "get", word]) != 0
        assert said in capsys.readouterr().err


def test_a_sweep_is_found_beside_newer_ones_of_other_servers(
    kept: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newest sweep is on a server of which only its port is known: nobody listens there."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        away = f"http://127.0.0.1:{closed.getsockname()[1]}"
    Records.load().add(SweepRecord("m", "a/b/c", away, away, str(kept.folder), "a.yaml", "", 2.0))
    kept.write(kept.runs[0], {"model": b"0"})
    assert run_command(["results", "get", kept.sweep_id, "--wandb", kept.client.url]) == 0
    assert run_command(["results", "get", kept.sweep_id]) == 0
    said = f"could not check whether {kept.sweep_id} is a run of the newest sweep: "
    assert capsys.readouterr().err.count(said) == 1


def test_a_run_that_could_not_keep_its_outputs_is_named(
    kept: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = kept.runs
    kept.write(second, {"model": b"2"})
    kept.client.log(first, [{"_step": 1, "loss": 0, "deployer_outputs_not_kept": "full"}], offset=1)
    kept.get(code=3)
    assert kept.read() == {"second/model": b"2"}
    assert capsys.readouterr().err.splitlines() == [
        f"error: {kept.path}: the outputs of first could not be kept: full",
        f"hint: deployer agents logs --run {first} shows the reason",
    ]


def test_what_cannot_be_got_says_why(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    for words, code, said in (
        ((), 3, f"{kept.path}: found no outputs of 2 runs"),
        (("third",), 2, f"RUN: run 'third' not found in {kept.path}"),
        (("first", "--best"), 2, "--best: is a run, but you also name others"),
        (("first", "--to", "s3://"), 2, "--to: 's3://' is not a location"),
        (("first", "--to", ""), 2, "--to: '' is not a location"),
        (("first", "--to", "ftp://x"), 2, "--to: is not the address of an object store"),
        (("first", "--to", "s3://key:secret@x"), 2, "--to: is not the address of an object store"),
    ):
        kept.get(*words, code=code)
        assert f"error: {said}" in capsys.readouterr().err.splitlines()


def test_a_sweep_without_finished_runs(
    backend: ServedBackend, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = make_sweep(backend, folder, [])
    kept.get(code=3)
    assert f"error: {kept.path}: no run has finished yet" in capsys.readouterr().err
    kept.get("--best", code=3)
    assert f"error: {kept.path} has no best run yet" in capsys.readouterr().err


def test_a_server_with_nothing_of_ours_gives_artifacts(
    plain_backend: ServedBackend, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in plain_backend.environment.items():
        monkeypatch.setenv(name, value)
    kept = make_sweep(plain_backend, folder, ["first"])
    kept.log(kept.runs[0], f"run-{kept.runs[0]}-output", {"best.pt": MODEL})
    kept.get("--best")
    assert kept.read() == {"first/best.pt": MODEL}


def test_results_alone_is_the_ranking_still(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["results", kept.path]) == 0
    assert "2/3 configurations finished" in capsys.readouterr().out
    assert run_command(["results", "get", "--nonsense"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "hint: deployer results get --help"
