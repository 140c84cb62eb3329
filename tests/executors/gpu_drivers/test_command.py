"""`deployer drivers`: flags that are wrong are said before any cluster is asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.forked import run_forked


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ("install", "--distribution", "debian"),
            "error: --distribution: 'debian' is not a distribution\nhint: one of: cos, ubuntu\n",
        ),
        (
            ("install", "--node-selector", "gpu"),
            "error: --node-selector: is not NAME=VALUE\nhint: --node-selector gpu=yes\n",
        ),
    ],
)
def test_wrong_flags(flags: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = run_forked(["drivers", *flags], tmp_path, os.environ)
    assert (done.returncode, done.stderr) == (2, said)
