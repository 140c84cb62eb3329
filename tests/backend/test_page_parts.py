"""The pure parts of the results pages: curves, and the command line of a run."""

from __future__ import annotations

import math
from typing import Any

import pytest

from deployer.backend.web.command_line import build_command_line
from deployer.backend.web.curves import POINTS_PER_CURVE, build_all_curves, build_curve


def test_a_curve_is_thinned_and_keeps_its_ends() -> None:
    rows = [{"_step": n, "val": {"loss": float(n)}} for n in range(5000)]
    curve = build_curve(rows, "val.loss")
    assert len(curve) == POINTS_PER_CURVE
    assert (curve[0], curve[-1]) == ((0, 0.0), (4999, 4999.0))


def test_numbers_alone_have_curves() -> None:
    image = {"_type": "image-file", "width": 3}
    rows: list[dict[str, Any]] = [
        {"a": 1, "b": True, "c": "text", "_runtime": 1, "d": image},
        {"a": math.nan},
    ]
    assert build_all_curves(rows) == {"a": [(0, 1.0), (1, None)]}


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
