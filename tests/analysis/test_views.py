"""Best so far, axes of parallel coordinates, and cost."""

from __future__ import annotations

import math

from deployer.analysis.best_so_far import list_best_so_far
from deployer.analysis.parallel import Scale, build_axes
from tests.analysis.rows import make_row, rank


def test_best_so_far_is_in_the_order_of_ends() -> None:
    rows = rank(
        [
            make_row(1, 3.0, {}, started_at=100.0),  # ends at 160
            make_row(2, 1.0, {}, started_at=10.0),  # at 70
            make_row(3, 2.0, {}, started_at=None),
            make_row(4, 0.5, {}, state="running", started_at=1.0),
            make_row(5, math.nan, {}, started_at=1.0),
        ]
    )
    low = list_best_so_far(rows, "minimize")
    assert [(p.number, p.ended_at, p.value, p.best, p.improved) for p in low] == [
        (1, 70.0, 1.0, 1.0, True),
        (2, 160.0, 3.0, 1.0, False),
        (3, None, 2.0, 1.0, False),
    ]
    assert [p.best for p in list_best_so_far(rows, "maximize")] == [1.0, 3.0, 3.0]


def test_axes_have_scale_and_domain() -> None:
    config = {
        "parameters": {
            "lr": {"distribution": "log_uniform_values", "min": 1e-4, "max": 1e-1},
            "width": {"values": [16, 32]},
            "opt": {"values": ["sgd", "adam"]},
            "epochs": {"value": 3},
        }
    }
    rows = rank(
        [
            make_row(1, 0.5, {"lr": 0.001, "width": 16, "opt": "sgd", "epochs": 3, "mom": 0.9}),
            make_row(2, 0.1, {"lr": 0.002, "width": 32, "opt": "adam", "epochs": 3}),
            make_row(3, math.nan, {"lr": 0.002, "width": 32, "opt": "adam", "epochs": 3}),
        ]
    )
    axes, constants = build_axes(rows, config, "loss", order=["lr", "opt"])
    assert [(a.name, a.scale, a.domain) for a in axes] == [
        ("width", Scale.LINEAR, (16.0, 32.0)),
        ("mom", Scale.LINEAR, (0.9, 0.9)),
        ("opt", Scale.CATEGORY, (0.0, 1.0)),
        ("lr", Scale.LOG, (0.001, 0.002)),
        ("loss", Scale.LINEAR, (0.1, 0.5)),
    ]
    assert axes[2].categories == ("adam", "sgd")
    assert constants == {"epochs": 3}


def test_values_of_several_kinds_are_categories() -> None:
    rows = [make_row(n, None, {"x": x}) for n, x in enumerate([1, "1", None, True, [2], 1.0])]
    [axis], _ = build_axes(rows, {}, None)
    assert axis.scale is Scale.CATEGORY
    assert len(axis.categories) == 5  # 1 and 1.0 are equal


def test_numbers_over_several_orders_lie_on_a_log_axis() -> None:
    rows = [make_row(n, None, {"lr": 10.0**-n, "x": n}) for n in range(4)]
    (lr, x), _ = build_axes(rows, {}, None)
    assert (lr.scale, x.scale) == (Scale.LOG, Scale.LINEAR)
    drawn = {"parameters": {"lr": {"min": 0.0, "max": 1.0}}}
    assert build_axes(rows, drawn, None)[0][0].scale is Scale.LINEAR
