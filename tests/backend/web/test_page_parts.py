"""The pure parts of the results pages: curves, and the command line of a run."""

from __future__ import annotations

import math
from typing import Any

import pytest

from deployer.page.curves import (
    POINTS_PER_CURVE,
    Curve,
    Point,
    build_all_curves,
    build_curve,
    describe_curve,
    write_history,
)
from deployer.page.run_document import flatten_summary
from deployer.sweeps.configuration_list import build_command_line


def test_a_curve_is_thinned_and_keeps_its_ends() -> None:
    rows = [{"_step": n, "val": {"loss": float(n)}} for n in range(5000)]
    curve = build_curve(rows, "val.loss")
    assert len(curve.points) == POINTS_PER_CURVE
    assert (curve.points[0], curve.points[-1]) == (Point(0, 0.0), Point(4999, 4999.0))
    assert (curve.gap, curve.low) == (None, True)


def test_thinning_keeps_what_sticks_out_and_tells_what_it_leaves_out() -> None:
    values: list[float] = [1.0] * 5000
    values[1001], values[3333], values[4000] = math.nan, 100.0, 0.5
    curve = build_curve([{"_step": n, "loss": value} for n, value in enumerate(values)], "loss")
    found = {point.step: point.value for point in curve.points}
    assert len(found) <= POINTS_PER_CURVE
    assert list(found) == sorted(found)
    assert {step: value for step, value in found.items() if value != 1.0} == {3333: 100, 4000: 0.5}
    assert (curve.gap, curve.low) == (1001, False)
    assert describe_curve(curve)["gap"] == 1001
    assert describe_curve(curve)["thinned"]
    assert "low" not in describe_curve(curve)


def test_a_history_is_saved_whole() -> None:
    image = {"_type": "image-file", "width": 3}
    rows = [{"_step": n, "_runtime": 0.5, "val": {"loss": n / 2}} for n in range(5000)]
    rows += [{"_step": 5000, "=1+1": math.inf}, {"_step": 5001, "text": "x", "image": image}]
    lines = write_history(rows).splitlines()
    assert lines[:2] == ["_step,_runtime,'=1+1,val.loss", "0,0.5,,0.0"]
    assert lines[-2:] == ["4999,0.5,,2499.5", "5000,,inf,"]
    assert len(lines) == 1 + 5001


def test_a_summary_is_what_was_logged_and_no_picture() -> None:
    image = {"_type": "image-file", "path": "media/a.png", "height": 32}
    summary = {"loss": 0.5, "img": image, "val": {"acc": 0.9}, "_runtime": 3, "_wandb": {"x": 1}}
    assert flatten_summary(summary) == {"loss": 0.5, "val.acc": 0.9}


def test_numbers_alone_have_curves() -> None:
    image = {"_type": "image-file", "width": 3}
    rows: list[dict[str, Any]] = [
        {"a": 1, "b": True, "c": "text", "_runtime": 1, "d": image},
        {"a": math.nan, "epoch": 2},
    ]
    assert build_all_curves(rows) == {
        "a": Curve([Point(0, 1.0, seconds=1), Point(1, None, epoch=2, word="NaN")], gap=1),
        "epoch": Curve([Point(1, 2.0, epoch=2)]),
    }


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (None, "python train.py --a=True --b=False '--c=x y'"),
        (["${env}", "${program}", "${args_no_boolean_flags}"],
         "/usr/bin/env train.py --a '--c=x y'"),
        (["sh", "${args_no_equals}"], "sh --a True --b False --c 'x y'"),
        (["run", "${envvar:HOME}", "${args_no_hyphens}"], "run \"${HOME}\" a=True b=False 'c=x y'"),
        (["run", "${args_json}"], """run '{"a": true, "b": false, "c": "x y"}'"""),
    ],
)  # fmt: skip
def test_the_command_line_is_the_agents(command: list[str] | None, line: str) -> None:
    settings = {"program": "train.py", **({"command": command} if command else {})}
    assert build_command_line(settings, {"a": True, "b": False, "c": "x y"}) == line
