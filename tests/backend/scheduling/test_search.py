"""Grid and random search: distinct, repeatable, complete."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.backend.scheduling.search import SearchError, find_missing_package, refusals, suggest

PARAMETERS = {
    "lr": {"values": [0.1, 0.01]},
    "deep": {"parameters": {"n": {"values": [1, 1.0, True]}, "k": {"min": 1, "max": 3}}},
    "name": {"value": "x"},
}
WIDE = {
    "lr": {"distribution": "log_uniform_values", "min": 1e-5, "max": 0.1},
    "deep": {"parameters": {"n": {"values": ["a", "b"]}, "w": {"distribution": "beta"}}},
}


def test_a_grid_hands_out_each_configuration_once_and_ends() -> None:
    config = {"method": "grid", "parameters": PARAMETERS}
    points = [suggest(config, "seed", [], index) for index in range(13)]
    assert points[0] == {"lr": 0.1, "name": "x", "deep": {"k": 1, "n": 1}}
    assert len({repr(point) for point in points[:12]}) == 12
    assert points[12] is None


def test_random_is_repeatable_and_depends_on_seed_and_index() -> None:
    config = {"method": "random", "parameters": WIDE}
    one = [suggest(config, "s", [], index) for index in range(50)]
    assert one == [suggest(config, "s", [], index) for index in range(50)]
    assert len({repr(point) for point in one}) == 50
    assert one[0] != suggest(config, "t", [], 0)
    assert {point["deep"]["n"] for point in one if point} == {"a", "b"}


def test_bayes_begins_with_random_draws() -> None:
    bayes = {"method": "bayes", "metric": {"name": "loss"}, "parameters": WIDE}
    for index in range(12):
        drawn = suggest({**bayes, "method": "random"}, "s", [], index)
        assert suggest(bayes, "s", [], index) == drawn


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (
            {"method": "custom", "parameters": PARAMETERS},
            "method: 'custom' is not one of grid, random, bayes",
        ),
        ({"parameters": PARAMETERS}, "method: None is not one of grid, random, bayes"),
        (
            {"method": "grid", "parameters": WIDE},
            "parameters.deep.parameters.w: a grid needs values that can be counted",
        ),
        (
            {"method": "random"},
            "parameters: there are no parameters (add one: lr: {values: [0.1, 1.0]})",
        ),
        (
            {"method": "random", "parameters": {"a": {"min": "1e-5", "max": 1.0}}},
            "parameters.a.min: '1e-5' is text, not a number (YAML 1.1 needs a dot: write 1.0e-5)",
        ),
        ({"method": "bayes", "parameters": WIDE}, "metric: bayes needs a metric with a name"),
    ],
)
def test_what_cannot_be_searched_is_refused(config: dict[str, Any], reason: str) -> None:
    assert refusals(config)[0] == reason
    with pytest.raises(SearchError) as caught:
        suggest(config, "s", [], 0)
    assert str(caught.value) == reason


def test_what_wandb_accepts_is_accepted() -> None:
    doubtful = {"method": "random", "parameters": {"3d": {"min": 0, "max": 0.5, "note": "x"}}}
    assert refusals({**doubtful, "settings": {}}) == []


def test_bayes_is_available_where_tests_run() -> None:
    assert find_missing_package() is None
