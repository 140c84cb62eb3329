"""Values, quantiles and the way back, for every form of a parameter."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import pytest

from deployer.sweeps.configuration_list import configuration_key
from deployer.sweeps.parameters import fill_distributions
from deployer.sweeps.space import Categorical, same_value
from deployer.text import number_hint
from tests.sweeps.spaces import single

LN10 = math.log(10)
US = [0.0, 0.01, 0.25, 0.5, 0.77, 0.99, 1.0]


# Each form with the values at u = 0.25 and 0.75, worked out by hand or taken from `scipy.stats`.
QUARTILES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "constant": ({"value": [1, "a"]}, [1, "a"], [1, "a"]),
    "categorical": ({"values": ["a", 2, None, {"x": 1}]}, 2, {"x": 1}),
    "categorical_w_probabilities": (
        {"values": ["a", "b", "c"], "probabilities": [0.2, 0.5, 0.3]},
        "b",
        "c",
    ),
    "int_uniform": ({"min": 1, "max": 8}, 3, 7),
    "uniform": ({"min": -1.0, "max": 3.0}, 0.0, 2.0),
    "mixed bounds": ({"min": 0, "max": 0.5}, 0.125, 0.375),
    "log_uniform_values": (
        {"distribution": "log_uniform_values", "min": 1e-4, "max": 1},
        1e-3,
        1e-1,
    ),
    "inv_log_uniform_values": (
        {"distribution": "inv_log_uniform_values", "min": 1e-4, "max": 1},
        1e-3,
        1e-1,
    ),
    "log_uniform": (
        {"distribution": "log_uniform", "min": -4 * LN10, "max": 0},
        1e-3,
        1e-1,
    ),
    "inv_log_uniform": (
        {"distribution": "inv_log_uniform", "min": 0, "max": 4 * LN10},
        1e-3,
        1e-1,
    ),
    "normal": ({"distribution": "normal"}, NormalDist().inv_cdf(0.25), NormalDist().inv_cdf(0.75)),
    "log_normal": (
        {"distribution": "log_normal", "mu": 1, "sigma": 2},
        math.exp(NormalDist(1, 2).inv_cdf(0.25)),
        math.exp(NormalDist(1, 2).inv_cdf(0.75)),
    ),
    "beta": (
        {"distribution": "beta", "a": 2, "b": 5},
        0.16116291679032652,
        0.3894794852007245,
    ),
    "beta by default": ({"distribution": "beta"}, 0.25, 0.75),
    "q_uniform": ({"distribution": "q_uniform", "min": 0, "max": 10, "q": 4}, 4, 8),
    "q_log_uniform_values": (
        {"distribution": "q_log_uniform_values", "min": 1, "max": 10_000, "q": 5},
        10,
        1000,
    ),
    "q_log_uniform": (
        {"distribution": "q_log_uniform", "min": 0, "max": 4 * LN10, "q": 5},
        10,
        1000,
    ),
    "q_normal": ({"distribution": "q_normal", "mu": 100, "sigma": 10, "q": 5}, 95, 105),
    "q_log_normal": ({"distribution": "q_log_normal", "mu": 3, "q": 1}, 10, 39),
    "q_beta": ({"distribution": "q_beta", "q": 0.5}, 0.0, 1.0),
}


@pytest.mark.parametrize("form", QUARTILES)
def test_quartiles(form: str) -> None:
    raw, low, high = QUARTILES[form]
    parameter = single(raw)
    for u, expected in ((0.25, low), (0.75, high)):
        value = parameter.value_at(u)
        if isinstance(expected, float):
            assert value == pytest.approx(expected)
        else:
            assert same_value(value, expected)


@pytest.mark.parametrize("form", QUARTILES)
def test_value_leads_back_to_itself(form: str) -> None:
    parameter = single(QUARTILES[form][0])
    for u in US:
        value = parameter.value_at(u)
        again = parameter.value_at(parameter.u_of(value))
        if isinstance(value, float):
            assert again == pytest.approx(value)
        else:
            assert same_value(again, value)


@pytest.mark.parametrize("form", [f for f, (raw, *_) in QUARTILES.items() if "min" in raw])
def test_values_stay_in_range_unless_rounded(form: str) -> None:
    raw = QUARTILES[form][0]
    values = [single(raw).value_at(u) for u in US]
    assert values == sorted(values)
    if not form.startswith("q_"):
        exponent = raw.get("distribution") in ("log_uniform", "inv_log_uniform")
        low, high = (1e-4 * 0.999, 1.001) if exponent else (raw["min"], raw["max"])
        assert low <= values[0]
        assert values[-1] <= high


def test_every_integer_is_reached_equally_often() -> None:
    parameter = single({"min": -2, "max": 2})
    values = [parameter.value_at(i / 1000) for i in range(1000)]
    assert {value: values.count(value) for value in values} == dict.fromkeys(range(-2, 3), 200)


def test_rounding_keeps_the_type_of_q() -> None:
    whole = {"distribution": "q_uniform", "min": 0, "max": 10, "q": 2}
    assert type(single(whole).value_at(0.5)) is int
    assert type(single({**whole, "q": 2.0}).value_at(0.5)) is float


def test_a_rounded_value_may_leave_the_range_as_at_wandb() -> None:
    assert single({"distribution": "q_uniform", "min": 1, "max": 9, "q": 5}).value_at(1) == 10


def test_a_normal_is_finite_at_the_edges() -> None:
    values = [single({"distribution": "normal"}).value_at(u) for u in (0.0, 1.0)]
    assert values == [pytest.approx(-4.753, abs=1e-3), pytest.approx(4.753, abs=1e-3)]


def test_a_normal_without_width_is_its_mean() -> None:
    parameter = single({"distribution": "normal", "mu": 3, "sigma": 0})
    assert (parameter.value_at(0.1), parameter.u_of(3)) == (3, 0.5)


def test_probability_zero_is_never_drawn() -> None:
    raw = {"values": ["a", "b", "c"], "probabilities": [0, 1, 0]}
    assert {single(raw).value_at(u) for u in US} == {"b"}


def test_a_value_outside_the_list_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"3 is not among the values of a\.b"):
        Categorical(("a", "b"), (1, 2)).u_of(3)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (9, 9.0, True),
        (True, 1, False),
        (False, 0.0, False),
        ("1", 1, False),
        (None, False, False),
        ([1, {"a": 2.0}], [1.0, {"a": 2}], True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ([1, 2], [2, 1], False),
        (math.nan, math.nan, True),
    ],
)
def test_equality(one: Any, other: Any, same: bool) -> None:
    """Of a value and of a configuration alike: both agree on what counts as the same."""
    assert same_value(one, other) is same
    keys = [configuration_key({"x": value}) for value in (one, other)]
    assert (keys[0] == keys[1]) is same


def test_distributions_are_filled_as_by_wandbs_client() -> None:
    from wandb.apis.public.sweeps import _validate_config_and_fill_distribution as by_wandb

    config = {
        "parameters": {
            "i": {"min": 1, "max": 2},
            "f": {"min": 1.0, "max": 2.0},
            "d": {"distribution": "normal"},
            "n": {"parameters": {"x": {"min": 1, "max": 2}}},
        }
    }
    assert fill_distributions(config) == by_wandb(config)
    assert "distribution" not in config["parameters"]["i"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("1e-5", "YAML 1.1 needs a dot: write 1.0e-5"),
        ("3e6", "YAML 1.1 needs a dot and a sign: write 3.0e+6"),
        ("1e+5", "YAML 1.1 needs a dot: write 1.0e+5"),
        ("1.5e5", "YAML 1.1 needs a sign: write 1.5e+5"),
        ("1.e5", "YAML 1.1 needs a dot and a sign: write 1.0e+5"),
        ("-2.5e-3", "write -2.5e-3 unquoted"),
        ("0.1", "write 0.1 without quotes"),
        ("adam", ""),
    ],
)
def test_hints_for_numbers(text: str, hint: str) -> None:
    assert number_hint(text) == hint
