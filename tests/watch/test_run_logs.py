"""What a run printed is found in its agent's log."""

from __future__ import annotations

import pytest

from deployer.errors import WandbError
from deployer.model import SweepPath
from deployer.wandb_api.client import Client
from deployer.watch.run_logs import find_run_output, follow_run
from tests.conftest import ServedBackend

LOG = """\
2026-11-20 10:00:00,000 - wandb.wandb_agent - INFO - Agent starting run with config:
2026-11-20 10:00:00,001 - wandb.wandb_agent - INFO - About to run command: python train.py --lrr=1
usage: train.py [-h] [--lr LR]
train.py: error: unrecognized arguments: --lrr=1
2026-11-20 10:00:05,000 - wandb.wandb_agent - INFO - Running runs: ['a-0']
2026-11-20 10:00:05,001 - wandb.wandb_agent - INFO - Cleaning up finished run: a-0
2026-11-20 10:00:05,300 - wandb.wandb_agent - INFO - About to run command: python train.py --lrr=2
Traceback (most recent call last):
2026-11-20 10:00:10,001 - wandb.wandb_agent - INFO - Cleaning up finished run: a-1
""".splitlines()


def test_each_run_has_its_own_lines() -> None:
    assert find_run_output(LOG, "a-0") == (
        "usage: train.py [-h] [--lr LR]",
        "train.py: error: unrecognized arguments: --lrr=1",
    )
    assert find_run_output(LOG, "a-1") == ("Traceback (most recent call last):",)
    assert find_run_output(LOG, "a-2") == ()


def test_a_run_that_is_not_there_is_not_waited_for(backend: ServedBackend) -> None:
    client, path = Client(backend.url, backend.key), SweepPath(backend.entity, "logs", "s")

    def sleep(_: float) -> None:
        raise AssertionError

    lines = follow_run(client, path, "none", follow=True, sleep=sleep)
    with pytest.raises(WandbError, match="run 'none' not found"):
        next(lines)
