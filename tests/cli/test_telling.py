"""--quiet, --verbose and --log-file with any command; what a shell completes."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import select
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from deployer.__main__ import run as run_command
from deployer.cli.output.log import close_log, open_log
from deployer.cli.output.render import say
from deployer.cli.shell.call import confirm
from deployer.cli.shell.options import complete_sweeps
from deployer.sweeps.records import Records, SweepRecord
from tests.conftest import ServedBackend

GOOD = "program: train.py\nmethod: grid\nparameters: {lr: {values: [1, 2]}}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    Path("a.yaml").write_text(GOOD)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        "--log-file kept -ojson sweep check a.yaml",
        "sweep --output=json --log-file kept check a.yaml",
        "sweep check --log-file=kept a.yaml -o json",
        "-o yaml --log-file other sweep -otable check -o json a.yaml --log-file kept",
    ],
)
def test_the_flags_may_stand_anywhere(
    words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(words.split()) == 0
    assert capsys.readouterr().out.startswith("[")
    assert (folder / "kept").exists()
    assert not (folder / "other").exists()


def test_the_command_line_counts_more_than_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEPLOYER_ON", "nowhere")
    assert run_command(["--on", "local", "plan", "a.yaml"]) == 0
    assert run_command(["plan", "a.yaml"]) == 2
    assert "DEPLOYER_ON: 'nowhere' is not an executor" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        ("--project digits gke down", None),
        ("--wandb https://x.test backend down", "--wandb"),
        ("backend --entity ann user list", "--entity"),
        ("orphans --on kubernetes --yes", "--on"),
        ("--on kubernetes orphans --yes", "--on"),
        ("-o json rights", "--output"),
        ("rights -o json", "-o"),
    ],
)
def test_an_option_that_means_nothing_to_a_command_is_refused_wherever_it_stands(
    words: str,
    flag: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "nothing.json")
    assert run_command(words.split()) in (1, 2)
    said = capsys.readouterr().err
    assert (f"No such option: {flag}" in said) == (flag is not None), said


def test_a_question_is_asked_with_what_it_is_about(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_log(quiet=True, verbose=False, file=None)
    try:
        say("this is to be deleted")
        assert capsys.readouterr().err == ""
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
        assert confirm("delete it?")
        assert capsys.readouterr().err == "this is to be deleted\ndelete it? [y/N]\n"
    finally:
        close_log()


@pytest.mark.parametrize("words", ["results --quiet get x", "results -o json --on=local get x"])
def test_a_command_below_a_command_is_found_behind_options(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command([*words.split(), "--best", "y"])
    assert "--best" in capsys.readouterr().err


def test_the_environment_is_not_read_where_it_means_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEPLOYER_ON", "nowhere")
    monkeypatch.setenv("DEPLOYER_WANDB", "nobody")
    assert run_command(["sweep", "check", "a.yaml"]) == 0
    assert run_command(["gke", "plan", "t4", "-o", "json"]) == 0
    assert capsys.readouterr().out


def test_a_command_behind_dashes_keeps_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["run", "--log-file", "--", "train.py"]) == 2
    assert "Option '--log-file' requires an argument" in capsys.readouterr().err
    assert run_command(["plan", "--", "--quiet"]) == 2
    assert "--quiet: cannot be read" in capsys.readouterr().err


def test_quiet_leaves_results_and_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["sweep", "export", "a.yaml", "--to", "sets.csv", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert run_command(["sweep", "export", "a.yaml", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("- hyperparam_set:")
    assert run_command(["sweep", "export", "b.yaml", "--quiet"]) == 2
    assert capsys.readouterr().err.startswith("error: b.yaml: cannot be read")
    assert run_command(["sweep", "export", "a.yaml", "--quiet", "--verbose"]) == 2
    assert "--quiet: is the opposite of --verbose" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--quiet",), ()], ids=["quiet", "told"])
def test_quiet_draws_nothing_in_a_terminal(folder: Path, words: tuple[str, ...]) -> None:
    (folder / "deployer.yaml").write_text("data: {name: digits, path: /data, folder: store}\n")
    ours, terminal = pty.openpty()
    put = [sys.executable, "-m", "deployer", "data", "put", "a.yaml", "digits", *words]
    done = subprocess.run(put, stdout=subprocess.PIPE, stderr=terminal, check=False)
    os.close(terminal)
    with contextlib.closing(os.fdopen(ours, "rb", buffering=0)) as screen:
        ready, _, _ = select.select([screen], [], [], 0)
        try:
            drawn = screen.read(1) if ready else b""
        except OSError:  # the end, as a terminal has it
            drawn = b""
    assert done.returncode == 0
    assert bool(drawn) == (not words)


def test_a_log_file_keeps_what_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "export", "a.yaml", "--to", "sets.csv", "--force", "--log-file", "x.log"]
    assert run_command([*words, "--quiet"]) == 0
    assert run_command(["sweep", "export", "b.yaml", "--log-file", "x.log"]) == 2
    first, *_, last = (folder / "x.log").read_text().splitlines()
    assert first.endswith("deployer.cli 2 sets in sets.csv")
    assert last.endswith(
        "deployer.cli hint: name a W&B sweep file; deployer init SCRIPT writes one"
    )
    assert stat.S_IMODE((folder / "x.log").stat().st_mode) == 0o600
    assert run_command([*words[:-1], "no/such/folder"]) == 2
    assert "--log-file: no/such/folder cannot be written" in capsys.readouterr().err


def test_requests_are_told_without_secrets(
    backend: ServedBackend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in backend.environment.items():
        monkeypatch.setenv(name, value)
    words = ["sweep", "list", "--wandb", backend.environment["WANDB_BASE_URL"], "-o", "json"]
    assert run_command([*words, "--verbose", "--log-file", "x.log"]) == 0
    shown, kept = capsys.readouterr().err, Path("x.log").read_text()
    for told in (shown, kept):
        assert '"POST /graphql HTTP/1.1" 200' in told
        assert backend.environment["WANDB_API_KEY"] not in told
    assert run_command(words) == 0
    assert "POST" not in capsys.readouterr().err


def test_sweeps_are_completed_from_this_machine() -> None:
    for number, path in enumerate(("me/a/one11111", "me/b/two22222", "")):
        Records.load().add(
            SweepRecord(f"id{number}", path, "embedded", "", "/f", "s.yaml", "", number)
        )
    assert complete_sweeps("") == ["me/b/two22222", "me/a/one11111"]
    assert complete_sweeps("me/a") == ["me/a/one11111"]
    assert complete_sweeps("tw") == ["two22222"]
    assert complete_sweeps("x") == []
