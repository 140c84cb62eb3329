"""Trees on bins: what they guess, and that their marginals are those of the guesses."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from deployer.analysis.tree import Tree, grow_tree, list_main_effects

GRID = np.array(list(product(range(4), range(4), range(4))))


def grow(goal: np.ndarray, bins: np.ndarray = GRID, least: int = 1) -> Tree:
    columns = np.arange(bins.shape[1])
    return grow_tree(bins, 4, goal, np.ones(len(goal)), least, columns[::-1])


def test_a_tree_learns_what_it_is_shown() -> None:
    goal = GRID[:, 0] * 10.0 + (GRID[:, 1] > 1) * GRID[:, 2]
    tree = grow(goal)
    assert tree.guesses == pytest.approx(goal)
    inside = (GRID[:, None] >= tree.lows) & (GRID[:, None] < tree.highs)
    assert (inside.all(axis=2).sum(axis=1) == 1).all()  # each run in one box
    assert (inside.all(axis=2).argmax(axis=1) == tree.leaf_of).all()


def test_main_effects_are_means_over_the_other_columns() -> None:
    goal = np.random.default_rng(0).normal(size=len(GRID))
    tree = grow(goal, least=3)
    effects = list_main_effects(tree, GRID, 4)
    for column in range(3):
        means = [tree.guesses[GRID[:, column] == value].mean() for value in range(4)]
        assert effects[column] == pytest.approx(np.array(means) - tree.guesses.mean())


def test_runs_without_weight_are_guessed_and_not_learned_from() -> None:
    bins = np.array([[0], [1], [2], [3]])
    weights = np.array([1.0, 0.0, 0.0, 1.0])
    tree = grow_tree(bins, 4, np.array([0.0, 99.0, 99.0, 1.0]), weights, 1, np.array([0]))
    assert tree.guesses.tolist() == [0.0, 0.0, 1.0, 1.0]  # cut in the middle


def test_leaves_have_the_least_weight_and_nothing_to_learn_is_one_leaf() -> None:
    goal = np.random.default_rng(1).normal(size=len(GRID))
    counts = np.bincount(grow(goal, least=5).leaf_of)
    assert counts.min() >= 5
    assert len(grow(np.ones(len(GRID))).values) == 1
