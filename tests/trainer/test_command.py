"""`python -m trainer` as a process: what it prints, how it ends, what reaches W&B."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
import torch
import wandb

from tests.conftest import ServedBackend
from tests.trainer.conftest import start_trainer
from tests.trainer.test_train import assert_equal_states
from trainer.__main__ import main

pytestmark = pytest.mark.slow

# Long enough to be interrupted, as short as can be otherwise.
LONG = ("--no_wandb", "--device=cpu", "--epochs=100", "--train_limit=256", "--dropout=0.2")


def test_dry_run_shows_configuration_size_and_batch_and_trains_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(
        ["--dry-run", "--device=cpu", "--batch-size=16", f"--checkpoint-dir={tmp_path / 'none'}"]
    )
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert code == 0
    assert shown["learning_rate"] == "0.01"
    assert shown["parameters"] == "26378"
    assert shown["batch"] == "images (16, 1, 8, 8), labels (16,), cpu"
    assert not (tmp_path / "none").exists()


@pytest.mark.full
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="of x86 alone")
def test_16_bits_are_off_where_the_processor_is_slow_with_them() -> None:
    command = [sys.executable, "-m", "trainer", "--dry-run", "--device=cpu", "--amp"]
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": "avx2"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("--amp is off: without AVX-512 this processor is slower")


@pytest.mark.full
def test_a_run_loads_neither_wandb_nor_the_compiler_nor_torchvision(tmp_path: Path) -> None:
    program = "; ".join(
        [
            "import sys",
            "from trainer.__main__ import main",
            "main(['--no-wandb', '--epochs=1'])",
            "heavy = {'wandb', 'sklearn', 'torchvision', 'torch._dynamo.eval_frame'}",
            "print('loaded', heavy & set(sys.modules))",
        ]
    )
    assert run_python(program, tmp_path).splitlines()[-1] == "loaded set()"


@pytest.mark.full
def test_the_compiler_is_still_there_for_who_needs_it(tmp_path: Path) -> None:
    program = "; ".join(
        [
            "from trainer.startup import defer_compiler",
            "defer_compiler()",
            "import torch, torch._dynamo.config",
            "print(torch.compile(lambda x: x + 1, backend='eager')(torch.zeros(1)).item())",
        ]
    )
    assert run_python(program, tmp_path) == "1.0\n"


@pytest.mark.full
def test_a_compiled_run_learns_the_same_and_its_checkpoint_fits_either(tmp_path: Path) -> None:
    # Not adam: its first steps are of the same size however small, and so turn with a rounding.
    flags = ["--no_wandb", "--device=cpu", "--epochs=2", "--train_limit=320", "--optimizer=sgd"]
    assert main([*flags, f"--checkpoint_dir={tmp_path / 'plain'}"]) == 0
    folders = {name: f"--{name}_dir={tmp_path / 'compiled'}" for name in ("checkpoint", "output")}
    process = start_trainer(*flags, "--compile", *folders.values())
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    plain, compiled = (
        torch.load(tmp_path / name / "checkpoint.pt") for name in ("plain", "compiled")
    )
    assert plain["model"].keys() == compiled["model"].keys()
    for one, other in zip(plain["history"], compiled["history"], strict=True):
        assert one["val_loss"] == pytest.approx(other["val_loss"], rel=1e-3)
    assert main([*flags, folders["checkpoint"]]) == 0  # what is done is told, and fits


def run_python(program: str, folder: Path) -> str:
    """Run a program in a process of its own and return what it printed."""
    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.parametrize(
    ("dataset", "place"),
    [
        ("cifar10", "cifar-10-batches-py"),
        pytest.param("mnist", "MNIST/raw", marks=pytest.mark.full),
    ],
)
def test_missing_data_is_one_error_and_one_hint(
    dataset: str,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody answers there
    # urllib keeps what it opens with for good: this test's proxies are for this test alone.
    monkeypatch.setattr("urllib.request._opener", None)
    code = main([f"--dataset={dataset}", f"--data={tmp_path}", "--no_wandb"])
    output, errors = capsys.readouterr()
    assert code == 2
    assert output == ""
    error, hint = errors.splitlines()
    assert error.startswith(f"error: {dataset} cannot be read from {tmp_path}, nor downloaded")
    assert hint == f"hint: put its files into {tmp_path / place}, or name another with --data DIR"


@pytest.mark.full
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_goes_on_as_if_nothing_had_happened(
    how: signal.Signals, tmp_path: Path
) -> None:
    assert main([*LONG, f"--checkpoint_dir={tmp_path / 'whole'}"]) == 0
    flags = (*LONG, f"--checkpoint_dir={tmp_path / 'killed'}")
    process = start_trainer(*flags)
    assert process.stdout is not None
    wait_for_line(process.stdout, "epoch 5 ")
    process.send_signal(how)
    process.communicate()
    assert process.returncode == -how
    interrupted = torch.load(tmp_path / "killed" / "checkpoint.pt")
    assert 4 <= len(interrupted["history"]) < 100
    assert main([*flags]) == 0
    whole, resumed = (torch.load(tmp_path / name / "checkpoint.pt") for name in ("whole", "killed"))
    assert_equal_states(whole, resumed)


def wait_for_line(stream: IO[str], start: str) -> None:
    """Read until a line starts so."""
    for line in stream:
        if line.startswith(start):
            return
    pytest.fail(f"the run ended before {start!r}")


@pytest.mark.slow
def test_every_epoch_reaches_wandb_once_with_the_best_in_the_summary(
    backend: ServedBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {
        **backend.environment,
        "WANDB_PROJECT": "trainer",
        "WANDB_RUN_ID": "resumed",
        "WANDB_RESUME": "allow",
        "WANDB_DIR": str(tmp_path),
        "DEPLOYER_CHECKPOINT_DIR": str(tmp_path / "checkpoint"),
    }
    flags = ("--device=cpu", "--epochs=40", "--train_limit=256", "--batch_norm=False")
    process = start_trainer(*flags, environment=environment)
    assert process.stdout is not None
    wait_for_line(process.stdout, "epoch 3 ")
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode != 0
    process = start_trainer(*flags, environment=environment)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "WARNING" not in errors

    for name, value in backend.environment.items():
        monkeypatch.setenv(name, value)
    run = wandb.Api().run(f"{backend.entity}/trainer/resumed")
    rows = run.history(samples=1000, pandas=False)
    assert [row["epoch"] for row in rows] == list(range(1, 41))
    assert [row["_step"] for row in rows] == list(range(1, 41))
    best = max(rows, key=lambda row: row["val_accuracy"])
    assert run.summary["best_val_accuracy"] == best["val_accuracy"]
    assert run.summary["best_epoch"] == best["epoch"]
    assert run.config["batch_norm"] is False
    assert run.config["learning_rate"] == 0.01
    assert "checkpoint_dir" not in run.config


@pytest.mark.full
@pytest.mark.slow
def test_a_missing_account_is_one_error_and_one_hint(tmp_path: Path) -> None:
    process = start_trainer("--device=cpu", "--epochs=1", environment={"WANDB_DIR": str(tmp_path)})
    _, errors = process.communicate()
    assert process.returncode == 2
    error, hint = errors.splitlines()[-2:]
    assert error.startswith("error: W&B: ")
    assert hint == "hint: `wandb login`, or --no-wandb to print only"
