"""Which parameters explain the metric, and what cannot be told; on runs whose truth is known."""

from __future__ import annotations

import math
import random
import re
import subprocess
import sys
from itertools import product

import pytest

from deployer.analysis.columns import build_columns
from deployer.analysis.importance import (
    Importance,
    ParameterImportance,
    build_importance,
)
from deployer.installation import install_package
from tests.analysis.rows import Parameters, draw_rows, make_row, rank


def lr_alone(parameters: Parameters, _draw: random.Random) -> float:
    return (math.log10(parameters["lr"]) + 3) ** 2


def lr_and_optimizer(parameters: Parameters, draw: random.Random) -> float:
    adam = 2.0 if parameters["optimizer.name"] == "adam" else 0.0
    return lr_alone(parameters, draw) + adam + draw.gauss(0, 0.5)


def momentum_of_sgd(parameters: Parameters, draw: random.Random) -> float:
    return 4 * parameters.get("optimizer.momentum", 0.5) + draw.gauss(0, 0.1)


def noise(_parameters: Parameters, draw: random.Random) -> float:
    return draw.gauss(0, 1)


def find(found: Importance, name: str) -> ParameterImportance:
    return next(one for one in found.parameters if one.name == name)


def list_told(found: Importance) -> list[str]:
    return [one.name for one in found.parameters if one.told]


def test_metric_of_lr_alone_is_found_with_200_runs() -> None:
    found = build_importance(draw_rows(200, lr_alone), "loss")
    assert list_told(found) == ["lr"]
    assert found.parameters[0].share > 0.9
    assert found.explained > 0.9
    assert found.constants == ("epochs",)
    said = found.sentence()
    assert re.match(r"lr explains (9\d|100) % ± [123] %; ", said)
    assert said.endswith("cannot be told from noise with 200 runs")


def test_six_runs_tell_nothing() -> None:
    found = build_importance(draw_rows(6, lr_alone), "loss")
    assert list_told(found) == []
    assert found.sentence() == (
        "lr, batch_size, optimizer.name, dropout and optimizer.momentum "
        "cannot be told from noise with 6 runs"
    )
    assert found.explained is None


def test_many_that_cannot_be_told_are_counted() -> None:
    def say(told: int) -> str:
        parameters = tuple(
            ParameterImportance(f"p{n}", 0.5, 0.1, 0.2, n < told, None, 30) for n in range(10)
        )
        return Importance("loss", parameters, 30, 0, 0.5).sentence()

    assert say(0) == "none of 10 can be told from noise with 30 runs"
    assert say(1) == "p0 explains 50 % ± 10 %; the other 9 cannot be told from noise with 30 runs"
    assert say(2).endswith(
        "; p2, p3, p4, p5, p6, p7, p8 and p9 cannot be told from noise with 30 runs"
    )


def test_24_runs_find_what_is_clear() -> None:
    told = [list_told(build_importance(draw_rows(24, lr_alone, seed), "loss")) for seed in range(3)]
    assert [names.count("lr") for names in told].count(1) >= 2
    assert sum(len(names) for names in told) <= 4


@pytest.mark.parametrize("count", [12, 60])
def test_noise_explains_nothing(count: int) -> None:
    found = [build_importance(draw_rows(count, noise, seed), "loss") for seed in range(3)]
    assert sum(len(list_told(one)) for one in found) <= 1


def test_shares_are_those_of_the_variance() -> None:
    """lr has 1.42 of it, the optimizer 0.89, and the rest, 0.25, is noise."""
    found = build_importance(draw_rows(400, lr_and_optimizer), "loss")
    assert list_told(found)[:2] == ["lr", "optimizer.name"]
    assert find(found, "lr").share == pytest.approx(1.42 / 2.56, abs=0.1)
    assert find(found, "optimizer.name").share == pytest.approx(0.89 / 2.56, abs=0.1)
    assert 0.005 < find(found, "lr").deviation < 0.1
    assert 0.75 < found.explained < 0.95


def test_conditional_parameter_counts_by_its_values_and_not_by_being_there() -> None:
    found = build_importance(draw_rows(150, momentum_of_sgd), "loss")
    assert "optimizer.momentum" in list_told(found)
    momentum = find(found, "optimizer.momentum")
    assert momentum.runs == sum("optimizer.momentum" in r.parameters for r in draw_rows(150, noise))
    assert momentum.correlation is not None
    assert momentum.correlation > 0.9

    def by_presence(parameters: Parameters, draw: random.Random) -> float:
        return ("optimizer.momentum" in parameters) + draw.gauss(0, 0.1)

    assert list_told(build_importance(draw_rows(150, by_presence), "loss")) == ["optimizer.name"]


def test_parameter_that_some_runs_leave_out_counts_by_being_there() -> None:
    draw = random.Random(1)
    rows = []
    for number in range(100):
        there = {"dropout": 0.5} if draw.random() < 0.5 else {}
        parameters = {"lr": draw.random(), **there}
        rows.append(make_row(number, len(there) + draw.gauss(0, 0.1), parameters))
    assert list_told(build_importance(rank(rows), "loss")) == ["dropout"]


def test_correlation_has_a_sign_and_categories_have_none() -> None:
    found = build_importance(draw_rows(50, lambda p, _: -math.log(p["lr"])), "loss")
    assert find(found, "lr").correlation == pytest.approx(-1)
    assert find(found, "optimizer.name").correlation is None


def test_scale_of_a_parameter_and_an_outlier_make_no_difference() -> None:
    rows = draw_rows(100, lr_alone)
    worst = make_row(99_999, 1e300, {**rows[0].parameters, "lr": 0.1})
    assert list_told(build_importance(rank([*rows, worst]), "loss")) == ["lr"]
    logs = [make_row(n, r.value, {"lr": math.log(r.parameters["lr"])}) for n, r in enumerate(rows)]
    raw = [make_row(n, row.value, {"lr": row.parameters["lr"]}) for n, row in enumerate(rows)]
    assert build_importance(rank(logs), "x") == build_importance(rank(raw), "x")


def test_runs_without_a_finite_value_are_left_out_and_counted() -> None:
    rows = draw_rows(40, lr_alone)
    bad = [
        make_row(90_000, math.nan, {"lr": 1.0}),
        make_row(90_001, None, {"lr": 1.0}),
        make_row(90_002, 0.1, {"lr": 1.0}, state="running"),
    ]
    found = build_importance(rank([*rows, *bad]), "loss")
    assert (found.runs, found.left_out) == (40, 3)
    assert found.parameters == build_importance(rows, "loss").parameters


def test_same_runs_in_any_order_give_the_same_answer() -> None:
    rows = draw_rows(60, lr_and_optimizer)
    assert build_importance(rows[::-1], "loss") == build_importance(rows, "loss")


def test_nothing_varies_and_one_value() -> None:
    same = [make_row(n, float(n), {"lr": 1.0}) for n in range(20)]
    found = build_importance(rank(same), "loss")
    assert found.sentence() == "no parameter varies in 20 runs"
    flat = rank([make_row(n, 1.0, {"lr": float(n)}) for n in range(20)])
    found = build_importance(flat, "loss")
    assert list_told(found) == []
    assert found.parameters[0].correlation is None
    nothing = build_importance([], "loss")
    assert (nothing.runs, nothing.explained) == (0, None)
    assert nothing.sentence() == "no run has finished with a finite loss"


def test_grid_and_mixed_values() -> None:
    grid = list(product([1, 2, 3], ["a", None, True], [[1], [2]]))
    rows = [
        make_row(n, x + 0.001 * n, {"x": x, "kind": kind, "layers": layers})
        for n, (x, kind, layers) in enumerate(grid)
    ]
    assert list_told(build_importance(rank(rows), "loss")) == ["x"]


def test_texts_of_which_each_run_has_another_are_names() -> None:
    rows = [make_row(n, float(n), {"x": n, "name": f"set {n}"}) for n in range(30)]
    found = build_importance(rank(rows), "loss")
    assert found.names == ("name",)
    assert [one.name for one in found.parameters] == ["x"]


def test_columns_know_what_another_parameter_decides() -> None:
    configurations = [
        {"optimizer": "sgd", "momentum": 0.1},
        {"optimizer": "sgd", "momentum": 0.9},
        {"optimizer": "adam"},
        {"optimizer": "adam"},
    ]
    optimizer, momentum = build_columns(configurations).varying
    assert (optimizer.category, optimizer.conditional) == (True, False)
    assert (momentum.places, momentum.conditional) == ((0, 1, None, None), True)


@pytest.mark.slow(seconds=2)
def test_five_thousand_runs_are_sampled() -> None:
    rows = draw_rows(5_000, lr_and_optimizer)
    found = build_importance(rows, "loss")
    assert found.runs == 5_000
    assert list_told(found)[:2] == ["lr", "optimizer.name"]


def test_rare_conditional_parameter_may_be_missing_in_the_sample() -> None:
    rows = [make_row(n, float(n), {"kind": n % 2, "x": n}) for n in range(2500)]
    rare = [make_row(n, float(n), {"kind": 2, "x": n, "y": n}) for n in range(2500, 2502)]
    assert list_told(build_importance(rank([*rows, *rare]), "loss")) == ["x"]


@pytest.mark.slow(seconds=2)
def test_shares_agree_with_optuna() -> None:
    """Where runs fill the space evenly and the metric has no noise, both measure the same."""
    import optuna

    draw = random.Random(3)
    rows = [
        make_row(n, 3 * a + 2 * (b - 0.5) ** 2 + a * c, {"a": a, "b": b, "c": c})
        for n in range(250)
        for a, b, c in [(draw.random(), draw.random(), draw.random())]
    ]
    found = build_importance(rank(rows), "loss")
    unit = {name: optuna.distributions.FloatDistribution(0, 1) for name in "abc"}
    study = optuna.create_study()
    study.add_trials(
        [
            optuna.trial.create_trial(params=r.parameters, distributions=unit, value=r.value)
            for r in rows
        ]
    )
    evaluator = optuna.importance.FanovaImportanceEvaluator(n_trees=8, seed=0)
    for name, share in evaluator.evaluate(study).items():
        assert find(found, name).share == pytest.approx(float(share), abs=0.06)


def test_without_scikit_learn_an_error_names_the_command() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"  # as Python sees what is not installed
        "from deployer.analysis.importance import build_importance\n"
        "from deployer.errors import DeployerError\n"
        "try: build_importance([], 'loss')\n"
        "except DeployerError as error: print(error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{install_package('scikit-learn')}\n"
