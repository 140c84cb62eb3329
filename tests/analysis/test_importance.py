"""Which parameters matter for the metric, on runs whose truth is known."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from itertools import product

import pytest
from sklearn.ensemble import RandomForestRegressor

from deployer.analysis.importance import Importance, ParameterImportance, build_importance
from deployer.installation import install_package
from tests.analysis.rows import Parameters, draw_rows, make_row, rank


def lr_alone(parameters: Parameters, _draw: random.Random) -> float:
    return (math.log10(parameters["lr"]) + 3) ** 2


def lr_and_optimizer(parameters: Parameters, draw: random.Random) -> float:
    adam = 2.0 if parameters["optimizer.name"] == "adam" else 0.0
    return lr_alone(parameters, draw) + adam + draw.gauss(0, 0.5)


def momentum_of_sgd(parameters: Parameters, draw: random.Random) -> float:
    return 4 * parameters.get("optimizer.momentum", 0.5) + draw.gauss(0, 0.1)


def find(found: Importance, name: str) -> ParameterImportance:
    return next(one for one in found.parameters if one.name == name)


def test_the_parameter_that_decides_is_first() -> None:
    found = build_importance(draw_rows(100, lr_alone), "loss")
    assert found.parameters[0].name == "lr"
    assert found.parameters[0].importance > 0.9
    assert sum(one.importance for one in found.parameters) == pytest.approx(1)
    assert found.constants == ("epochs",)
    said = "lr is the most important of 5 parameters for loss in 100 runs"
    assert found.sentence() == said


def test_a_category_has_the_importance_of_all_its_values() -> None:
    found = build_importance(draw_rows(200, lr_and_optimizer), "loss")
    assert [one.name for one in found.parameters[:2]] == ["lr", "optimizer.name"]
    assert find(found, "optimizer.name").importance > 0.2
    assert find(found, "optimizer.name").correlation is None


def test_it_is_the_importance_of_a_random_forest_of_scikit_learn() -> None:
    draw = random.Random(3)
    points = [(draw.random(), draw.random()) for _ in range(80)]
    rows = [make_row(n, 3 * a + b, {"a": a, "b": b}) for n, (a, b) in enumerate(points)]
    forest = RandomForestRegressor(random_state=0).fit(points, [3 * a + b for a, b in points])
    found = build_importance(rank(rows), "loss")
    expected = pytest.approx(list(forest.feature_importances_), abs=0.01)
    assert [find(found, name).importance for name in "ab"] == expected


def test_a_parameter_that_some_runs_lack_counts_its_own_runs() -> None:
    rows = draw_rows(150, momentum_of_sgd)
    found = build_importance(rows, "loss")
    momentum = find(found, "optimizer.momentum")
    assert momentum.runs == sum("optimizer.momentum" in row.parameters for row in rows)
    assert momentum.correlation is not None
    assert momentum.correlation > 0.9
    assert found.parameters[0] == momentum


def test_a_parameter_counts_by_being_there() -> None:
    rows = [make_row(n, float(n % 2), {"x": n, **({"y": 1} if n % 2 else {})}) for n in range(40)]
    assert build_importance(rank(rows), "loss").parameters[0].name == "y"


def test_the_correlation_is_linear() -> None:
    rows = draw_rows(50, lambda p, _: -p["dropout"])
    assert find(build_importance(rows, "loss"), "dropout").correlation == pytest.approx(-1)


def test_runs_without_a_finite_value_and_stopped_ones_are_left_out_and_counted() -> None:
    rows = draw_rows(40, lr_alone)
    bad = [
        make_row(90_000, math.nan, {"lr": 1.0}),
        make_row(90_001, None, {"lr": 1.0}),
        make_row(90_002, 0.1, {"lr": 1.0}, state="running"),
    ]
    stopped = make_row(90_003, 0.1, {"lr": 1.0}, state="killed")
    ranked = [*rank([*rows, *bad]), *rank([stopped])]
    ranked[-1] = type(stopped)(**{**vars(stopped), "rank": 41})
    found = build_importance(ranked, "loss")
    assert (found.runs, found.stopped_early, found.left_out) == (40, 1, 3)
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
    assert found.parameters == (ParameterImportance("lr", 0.0, None, 20),)
    assert found.sentence() == "loss does not depend on 1 parameter in 20 runs"
    nothing = build_importance([], "loss")
    assert (nothing.runs, nothing.parameters) == (0, ())
    assert nothing.sentence() == "no run has finished with a finite loss"


def test_grid_and_mixed_values() -> None:
    grid = list(product([1, 2, 3], ["a", None, True], [[1], [2]]))
    rows = [
        make_row(n, x + 0.001 * n, {"x": x, "kind": kind, "layers": layers})
        for n, (x, kind, layers) in enumerate(grid)
    ]
    assert build_importance(rank(rows), "loss").parameters[0].name == "x"


def test_texts_of_which_each_run_has_another_are_names() -> None:
    rows = [make_row(n, float(n), {"x": n, "name": f"set {n}"}) for n in range(30)]
    found = build_importance(rank(rows), "loss")
    assert found.names == ("name",)
    assert [one.name for one in found.parameters] == ["x"]


@pytest.mark.slow(seconds=4)
def test_five_thousand_runs_are_sampled() -> None:
    found = build_importance(draw_rows(5_000, lr_and_optimizer), "loss")
    assert found.runs == 5_000
    assert [one.name for one in found.parameters[:2]] == ["lr", "optimizer.name"]


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
