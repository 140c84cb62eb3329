"""Which lines of a script are rows of metrics; no process is started."""

from __future__ import annotations

import json

import pytest

from deployer.agent.metric_lines import (
    GaveUp,
    LineSplitter,
    MetricRow,
    MetricSpec,
    Rows,
    TextLines,
    add_metric,
    parse_spec,
)
from deployer.agent.server import METRIC, find_word

TEXT: dict[str, MetricRow] = {
    "loss=0.3": {"loss": 0.3},
    "epoch 3: loss = 1.5e-3, val/acc=90.5%": {"loss": 0.0015, "val/acc": 90.5},
    "done, loss=0.31.": {"loss": 0.31},
    "loss=-.5 acc=+1": {"loss": -0.5, "acc": 1.0},
    "train.loss=1 loss=2": {"train.loss": 1.0, "loss": 2.0},
    "time=1.2s version=1.2.3 host=abc hash=12ab": {},
    "loss=inf": {"loss": float("inf")},
    "100%|##| 10/10 [00:01<00:00, 9.1it/s, loss=0.25]": {"loss": 0.25},
    "2026-01-01 INFO train: loss=0.5": {"loss": 0.5},
    '{"loss": 0.3, "ok": true, "name": "1", "val": {"acc": 1}}': {"loss": 0.3, "val.acc": 1},
    "{'loss': 0.3, 'epoch': 1.0}": {"loss": 0.3, "epoch": 1.0},
    "{not a dict": {},
    '[{"loss": 1}]': {},
    "loss: 0.3": {},
    "loss=308,641.95 acc=1,5": {},
    "loss=1, acc=2,": {"loss": 1.0, "acc": 2.0},
    '10%|#  | 1/9 [6.6it/s]{"epoch": 0, "loss": 2}': {"epoch": 0, "loss": 2},
    "a" * 9000 + "=": {},
}


@pytest.mark.parametrize("line", TEXT, ids=lambda line: line[:30])
def test_the_values_of_a_line(line: str) -> None:
    assert TextLines().read(line) == TEXT[line]


PATTERNS = [
    (r"loss: (?P<loss>\S+)", "step 1 loss: 0.3", {"loss": 0.3}),
    (r"loss: (?P<loss>\S+)", "loss: none", {}),
    (r"Epoch (?P<epoch>\d+).*acc (?P<acc>[\d.]+)", "Epoch 4/9 acc 0.5", {"epoch": 4.0, "acc": 0.5}),
    (r"(?P<name>\w+): (?P<value>[\d.]+)", "loss: 0.3 acc: 0.9", {"loss": 0.3, "acc": 0.9}),
    (r"a=(?P<a>\d)|b=(?P<b>\d)", "a=1 b=2", {"a": 1.0, "b": 2.0}),
]


@pytest.mark.parametrize(("pattern", "line", "values"), PATTERNS)
def test_the_values_that_a_pattern_names(pattern: str, line: str, values: MetricRow) -> None:
    assert TextLines(pattern).read(line) == values


def test_a_pattern_without_end_is_given_up() -> None:
    lines = TextLines(r"^(?P<loss>(a|a)+)$")
    endless = "a" * 60 + "!"
    assert [lines.read(endless), lines.read("a"), lines.read(endless)] == [{}, {}, {}]
    with pytest.raises(GaveUp):
        lines.read(endless)


CHUNKS = [
    ([b"a\nb\n"], ["a", "b"]),
    ([b"a\rb\r\nc"], ["a", "b", "c"]),
    ([b"a\r", b"\nb"], ["a", "b"]),
    ([b"lo", b"ss=1", b"\r"], ["loss=1"]),
    ([b"\x1b[32mloss\x1b[0m=1\n"], ["loss=1"]),
    ([b"\xff=1\n"], ["\ufffd=1"]),
    ([b"x" * 100_000, b"y\nz\n"], ["x" * 8192, "z"]),
]


@pytest.mark.parametrize(("chunks", "lines"), CHUNKS)
def test_the_lines_of_a_stream(chunks: list[bytes], lines: list[str]) -> None:
    splitter = LineSplitter()
    assert [line for chunk in chunks for line in splitter.feed(chunk)] + [*splitter.end()] == lines


WANTED = {
    "the sweep's metric alone": ({}, [{"loss": 1}, {}, {"loss": 2}]),
    "all": ({"names": None}, [{"loss": 1, "lr": 5}, {"epoch": 2}, {"loss": 2}]),
    "a step, which lasts": (
        {"step": "epoch"},
        [{"loss": 1}, {}, {"loss": 2, "epoch": 2}],
    ),
}


@pytest.mark.parametrize("case", WANTED)
def test_the_row_of_a_line(case: str) -> None:
    setting, rows = WANTED[case]
    found = Rows(parse_spec(add_metric(json.dumps(setting), "loss")))
    values: list[MetricRow] = [{"loss": 1, "lr": 5}, {"epoch": 2}, {"loss": 2}]
    assert [found.build(one) for one in values] == rows


def test_a_run_that_resumes_logs_no_step_twice() -> None:
    rows = Rows(MetricSpec(None, "epoch"), last_step=2)
    said: list[MetricRow] = [{"epoch": n, "loss": n} for n in (1, 2, 3, 4)]
    assert [row["loss"] for row in map(rows.build, said) if row] == [3, 4]


CONFIGS = {
    "metric:\n  goal: minimize\n  name: val/loss\nname: x\n": "val/loss",
    "metric:\n  name: 'val loss' # so\n": "val loss",
    "method: grid\nmetric: {goal: minimize, name: loss}\n": "loss",
    "name: x\nmetric:\n  goal: minimize\nparameters:\n  a:\n    name: y\n": "",
}


@pytest.mark.parametrize("config", CONFIGS)
def test_the_metric_in_a_sweeps_yaml(config: str) -> None:
    assert find_word(METRIC, config) == CONFIGS[config]
