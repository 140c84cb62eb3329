"""What the Python API refuses by itself: values that the command line refuses as flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deployer import api
from deployer.errors import ConfigError


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"replicas": 0}, "replicas: 0 is below 1"),
        ({"replicas": "two"}, "replicas: 'two' is not a whole number"),
        ({"replicas": True}, "replicas: True is not a whole number"),
        ({"run_cap": -1}, "run_cap: -1 is below 1"),
        ({"retries": -1}, "retries: -1 is below 0"),
    ],
)
def test_a_wrong_number_is_refused_by_its_name(arguments: dict[str, int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        api.up("missing.yaml", **arguments)


def test_a_sweep_that_up_refuses_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = "program: train.py\nmethod: grid\nparameters: {lr: {values: [1, 2]}}\n"
    (tmp_path / "sweep.yaml").write_text(sweep)
    server: Any = None  # it is not asked
    with pytest.raises(ConfigError, match=r"train\.py: there is no such file"):
        api.create_sweep(server, "sweep.yaml")
    script = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--rate')\np.parse_args()"
    )
    (tmp_path / "train.py").write_text(f"import wandb\n{script}\n")
    with pytest.raises(ConfigError, match="--lr"):
        api.create_sweep(server, "sweep.yaml")
