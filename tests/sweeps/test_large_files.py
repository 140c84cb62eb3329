"""How much work a large sweep file takes, counted, and what is too large."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from deployer.config import document
from deployer.config.document import parse_document
from deployer.errors import ConfigError
from deployer.sweeps.set_files import parse_sets
from deployer.sweeps.sweep_file import examine_sweep, parse_sweep

HEAD = "program: train.py\nmethod: grid\nparameters:\n"


def one_list(values: list[str]) -> str:
    return f"{HEAD}  x: {{values: [{', '.join(values)}]}}\n"


SHAPES: dict[str, Callable[[int], str]] = {
    "numbers": lambda n: one_list([str(i) for i in range(n)]),
    "twice": lambda n: one_list([str(i // 2) for i in range(n)]),
    "mappings": lambda n: one_list([f"{{a: {i}}}" for i in range(n)]),
    "wrong ones": lambda n: HEAD + "".join(f"  p{i}: {{min: 1}}\n" for i in range(n)),
    "written twice": lambda n: HEAD + "".join(f"  p{i // 2}: {{value: 1e3}}\n" for i in range(n)),
}


def count_steps(work: Callable[[], object]) -> int:
    """Count the bytecode instructions of Python that some work takes."""
    steps = 0

    def note(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal steps
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        steps += event == "opcode"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_as_many_values_are_at_most_twice_the_work(shape: str) -> None:
    few, many = (SHAPES[shape](n) for n in (60, 120))
    examine_sweep(few, "s.yaml")  # what is imported on first use is no part of it
    steps = [count_steps(partial(examine_sweep, text, "s.yaml")) for text in (few, many)]
    assert steps[1] <= 2 * steps[0]


def test_a_value_too_many_is_refused_on_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MOST_VALUES", 4)
    with pytest.raises(ConfigError) as caught:
        parse_document("a:\n- 1\n- 2\n- 3\n- 4\n", "s.yaml")  # the root and the list, too
    assert caught.value.message == "s.yaml:4: more than 4 values in one file"
    assert parse_document("a:\n- 1\n- 2\n", "s.yaml").value == {"a": [1, 2]}


TENTH = f"[{', '.join(['1'] * 9_999)}]"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"a: &a {TENTH}\nb: [{', '.join(['*a'] * 10)}]", "s.yaml"),
        ("a,b\n" + "1,2\n" * 50_000, "s.csv"),
        ("[" + ", ".join(["{}"] * 100_001) + "]", "s.json"),
    ],
)
def test_more_than_100000_values_are_refused_in_every_format(text: str, place: str) -> None:
    with pytest.raises(ConfigError, match="than 100,000 values"):
        parse_sets(text, place)


def test_columns_that_are_there_twice_are_found_in_one_pass() -> None:
    names = [f"c{n // 2}" for n in range(40_000)]  # pair by pair it would take minutes
    with pytest.raises(ConfigError) as caught:
        parse_sets(f"{','.join(names)}\n{'1,' * 39_999}1\n", "s.csv")
    assert len(caught.value.findings) == 20_000


def test_a_long_header_full_of_quotes_is_read_in_one_pass() -> None:
    header = ",".join(f"'{n}" for n in range(40_000))
    with pytest.raises(ConfigError, match="cannot be the name of a flag"):
        parse_sets(f"{header}\n1\n", "s.csv")


def test_a_deep_value_is_refused_before_anything_overflows() -> None:
    deep = {n: f"x: {{value: {'[' * n}1{']' * n}}}" for n in (90, 120)}
    assert parse_sweep(f"{HEAD}  {deep[90]}\n", "s.yaml").expected == 1
    with pytest.raises(ConfigError) as caught:
        parse_sweep(f"{HEAD}  {deep[120]}\n", "s.yaml")
    assert caught.value.message == "s.yaml:4: nested too deeply: more than 100 levels"
