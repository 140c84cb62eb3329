"""Grids of parameters: their points, once each and in order, and how many runs they mean."""

from __future__ import annotations

import random

import pytest

from deployer.sweeps.parameters import expected_count
from tests.sweeps.spaces import single, space_of


def test_grid_drops_equal_values_and_keeps_order() -> None:
    parameter = single({"values": [1, 1.0, True, "1", 1, 0.5]})
    assert parameter.grid_size == 4
    assert [parameter.grid_value(i) for i in range(4)] == [1, True, "1", 0.5]


@pytest.mark.parametrize(
    ("low", "high", "q", "expected"),
    [
        (0, 10, 4, [0, 4, 8]),
        (0, 8, 4, [0, 4]),
        (0, 1, 0.25, [0.0, 0.25, 0.5, 0.75]),
        (1, 2, 5, [1]),
        (0, 2, None, [0.0, 1.0]),
    ],
)
def test_grid_of_q_uniform_ends_below_max(
    low: float, high: float, q: float | None, expected: list[float]
) -> None:
    raw = {"distribution": "q_uniform", "min": low, "max": high}
    parameter = single(raw if q is None else {**raw, "q": q})
    values = [parameter.grid_value(i) for i in range(parameter.grid_size or 0)]
    assert values == expected
    assert list(map(type, values)) == list(map(type, expected))


NESTED = {
    "lr": {"values": [0.1, 1, 1.0]},
    "epochs": {"value": 3},
    "model": {
        "parameters": {
            "width": {"min": 1, "max": 2},
            "act": {"parameters": {"name": {"values": ["relu", None]}}},
        }
    },
    "z": {"values": [[1, 2], {"a": True}, True]},
}


def test_nested_grid_enumerates_every_configuration_once() -> None:
    space = space_of(NESTED)
    size = space.grid_size
    points = [space.grid_point(i) for i in range(24)]
    assert size == 2 * 2 * 2 * 3 == 24
    assert len({repr(p) for p in points}) == 24
    assert space.grid_point(24) is None
    assert points[0] == {
        "epochs": 3,
        "lr": 0.1,
        "z": [1, 2],
        "model": {"act": {"name": "relu"}, "width": 1},
    }
    assert list(points[0]) == ["epochs", "lr", "z", "model"]  # plain names, then groups
    assert [p["z"] for p in points[:4] if p] == [[1, 2], {"a": True}, True, [1, 2]]


def test_grid_points_do_not_share_their_lists() -> None:
    space = space_of({"a": {"values": [[1]]}})
    first = space.grid_point(0)
    assert first is not None
    first["a"].append(2)
    assert space.grid_point(0) == {"a": [1]}


def test_a_huge_grid_is_not_listed() -> None:
    space = space_of({name: {"min": 1, "max": 10**6} for name in "abc"})
    assert space.grid_size == 10**18
    assert space.grid_point(10**18 - 1) == dict.fromkeys("abc", 10**6)


def test_values_come_back_out_of_a_configuration() -> None:
    space = space_of(NESTED)
    us = [random.Random(0).random() for _ in space.parameters]
    point = space.point(us)
    assert space.nest(space.values_in(point)) == point
    with pytest.raises(KeyError, match=r"model\.act\.name"):
        space.values_in({**point, "model": {"act": 1}})


@pytest.mark.parametrize(
    ("method", "run_cap", "count"),
    [
        ("grid", None, 24),
        ("grid", 7, 7),
        ("grid", 99, 24),
        ("random", 7, 7),
        ("random", None, None),
        ("bayes", 7, 7),
    ],
)
def test_expected_count(method: str, run_cap: int | None, count: int | None) -> None:
    config = {"method": method, "parameters": NESTED}
    assert expected_count(config if run_cap is None else {**config, "run_cap": run_cap}) == count
