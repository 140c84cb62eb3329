"""The share of a metric's variance that each parameter explains: fANOVA on a random forest.

Hutter, Hoos and Leyton-Brown, "An Efficient Approach for Assessing Hyperparameter Importance",
ICML 2014, as in Optuna's FanovaImportanceEvaluator, with two differences. Marginals are over the
values that the runs have instead of a box. And a share is what a marginal explains of runs that the
trees have not seen, so that of noise it is about 0.

Imports numpy and scikit-learn: import it inside a call alone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from deployer.analysis.columns import Column, Shares

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]
ROUNDS = 20
TREES = 8
# Of more runs so many are taken: a share is then known to a percent or two.
LARGEST_SAMPLE = 2000
# A round learns from so much of the runs, up to a number; the rest tells what was learned.
LEARNED = 0.8
LARGEST_BAG = 400
LEAVES = 100  # at most, about, of a tree
# So often noise may pass for an effect.
LEVEL = 0.05
# Values further out than so many interquartile ranges would be all that is seen: Tukey's fence.
FENCE = 3.0


@dataclass(frozen=True)
class _Round:
    """What was learned from a part of the runs about the others, whose places are `rest`.

    `guesses` (others) and `effects` (others x columns) are sums over the trees.
    """

    rest: Places
    guesses: Numbers
    effects: Numbers


def measure_shares(columns: Sequence[Column], values: Sequence[float]) -> Shares:
    """Return what each column explains; `values` are the metric's, finite, one for each place."""
    rng = np.random.default_rng(_seed(columns, values))
    chosen = np.arange(len(values))
    if len(values) > LARGEST_SAMPLE:
        chosen = np.sort(rng.choice(len(values), LARGEST_SAMPLE, replace=False))
    goal = _limit(np.asarray(values, dtype=np.float64)[chosen])
    places = [_to_array(column)[chosen] for column in columns]
    rounds = [_run_round(columns, places, goal, rng) for _ in range(ROUNDS)]
    total = float(goal @ goal)
    if not total:
        nothing = (0.0,) * len(columns)
        return Shares(nothing, nothing, nothing, 0.0)
    left, gains = _pool(goal, rounds)
    shares = gains.sum(axis=0) / total
    return Shares(
        tuple(map(float, shares)),
        tuple(map(float, _deviate(goal, rounds, shares))),
        tuple(map(float, _find_floors(gains) / total)),
        max(0.0, 1 - float(left @ left) / total),
    )


def _pool(goal: Numbers, rounds: Sequence[_Round]) -> tuple[Numbers, Numbers]:
    """Return the errors of all rounds' guesses together, and the gains of each column."""
    count, guesses = np.zeros(len(goal)), np.zeros(len(goal))
    effects = np.zeros((len(goal), rounds[0].effects.shape[1]))
    for one in rounds:
        count[one.rest] += TREES
        guesses[one.rest] += one.guesses
        effects[one.rest] += one.effects
    seen = np.maximum(count, 1)  # a run that is in every sample is guessed at the mean, 0
    left = goal - guesses / seen
    return left, _list_gains(left, effects / seen[:, None])


def _list_gains(left: Numbers, effects: Numbers) -> Numbers:
    """Return by how much the squared error of each run is less for the effect of each column."""
    return np.asarray((left[:, None] + effects) ** 2 - (left**2)[:, None])


def _find_floors(gains: Numbers) -> Numbers:
    """Return which sum of gains noise reaches once in 20 times, in any of the columns.

    One-sided, by the standard error of a sum, with Bonferroni's correction.
    """
    runs, columns = gains.shape
    limit = NormalDist().inv_cdf(1 - LEVEL / columns)
    return np.asarray(limit * math.sqrt(runs) * gains.std(axis=0, ddof=1))


def _deviate(goal: Numbers, rounds: Sequence[_Round], shares: Numbers) -> Numbers:
    """Return the standard errors of shares: they differ from round to round.

    Rounds share runs, hence the correction of Nadeau and Bengio, "Inference for the Generalization
    Error", Machine Learning 52 (2003).
    """
    apart = []
    for one in rounds:
        held = goal[one.rest]
        gains = _list_gains(held - one.guesses / TREES, one.effects / TREES).sum(axis=0)
        apart.append((gains - shares * float(held @ held)) / len(held))
    tested = len(rounds[0].rest)
    widening = math.sqrt(1 / ROUNDS + tested / (len(goal) - tested))
    return np.asarray(widening * np.std(apart, axis=0, ddof=1) / goal.var())


def _seed(columns: Sequence[Column], values: Sequence[float]) -> int:
    """Return a seed that the data alone decides."""
    told = repr((tuple(values), [(column.name, column.places) for column in columns]))
    return int.from_bytes(hashlib.sha256(told.encode()).digest()[:8], "big")


def _limit(values: Numbers) -> Numbers:
    """Return values less their mean, between -1 and 1; those far out are brought to the fence."""
    scaled = values / (np.abs(values).max() or 1.0)  # so that no square overflows
    low, high = np.quantile(scaled, (0.25, 0.75))
    reach = FENCE * (high - low) or np.inf
    limited = np.clip(scaled, low - reach, high + reach)
    centred = limited - limited.mean()
    return np.asarray(centred / (np.abs(centred).max() or 1.0))


def _to_array(column: Column) -> Numbers:
    """Return places as numbers: missing ones are nan if conditional, else a value of their own."""
    return np.array(
        [
            place if place is not None else np.nan if column.conditional else -1
            for place in column.places
        ],
        dtype=np.float64,
    )


def _run_round(
    columns: Sequence[Column], places: Sequence[Numbers], goal: Numbers, rng: np.random.Generator
) -> _Round:
    """Learn from a sample of the runs, and guess the others."""
    size = min(LARGEST_BAG, int(LEARNED * len(goal)))
    order = rng.permutation(len(goal))
    bag, rest = order[:size], order[size:]
    filled = [_fill(place, rng) for place in places]
    ordered = [
        _order_categories(place, goal, bag) if column.category else place
        for place, column in zip(filled, columns, strict=True)
    ]
    # As the trees compare them, so that each value lies on the same side of a cut here and there.
    matrix = np.column_stack(ordered).astype(np.float32)
    guesses, effects = np.zeros(len(rest)), np.zeros((len(rest), len(columns)))
    for _ in range(TREES):
        drawn = rng.choice(bag, size)
        least, state = max(2, size // LEAVES), int(rng.integers(2**31))
        tree = DecisionTreeRegressor(min_samples_leaf=least, random_state=state)
        tree.fit(matrix[drawn], goal[drawn])
        guesses += tree.predict(matrix[rest])
        effects += _list_main_effects(tree.tree_, matrix, rest)
    return _Round(rest, guesses, effects)


def _fill(places: Numbers, rng: np.random.Generator) -> Numbers:
    """Draw what is missing from the values there are.

    So it is the values that count, and not whether there is one: that is the doing of the parameter
    that decides it.
    """
    missing = np.isnan(places)
    if missing.all():  # of the runs that were taken none has it
        return np.zeros_like(places)
    filled = places.copy()
    filled[missing] = rng.choice(places[~missing], int(missing.sum()))
    return filled


def _order_categories(places: Numbers, goal: Numbers, bag: Places) -> Numbers:
    """Put each category at the mean of its values in the sample, where one cut finds the best two.

    Breiman and others, "Classification and Regression Trees" (1984), section 9.4. A category that
    the sample does not have is at the mean of all.
    """
    codes = (places + 1).astype(np.int64)
    length = int(np.max(codes)) + 1
    counts = np.bincount(codes[bag], minlength=length)
    sums = np.bincount(codes[bag], weights=goal[bag], minlength=length)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), goal[bag].mean())
    return np.asarray(means[codes])


def _list_main_effects(tree: Any, matrix: NDArray[np.float32], rest: Places) -> Numbers:
    """Return by how much each column alone moves a tree's guess from its mean, for some runs.

    A leaf is a box; its side along a column is the part of the runs that lie between its ends.
    """
    cuts = [np.unique(tree.threshold[tree.feature == f]) for f in range(matrix.shape[1])]
    lows, highs = _bound_nodes(tree, cuts)
    leaves = tree.children_left < 0
    lows, highs, values = lows[leaves], highs[leaves], tree.value[leaves, 0, 0]
    used = [f for f, cut in enumerate(cuts) if len(cut)]
    edges = {f: _measure_edges(matrix[:, f], cuts[f]) for f in used}
    sides = {f: edges[f][highs[:, f]] - edges[f][lows[:, f]] for f in used}
    boxes = np.prod([sides[f] for f in used], axis=0) if used else np.ones(len(values))
    mean = float(boxes @ values)
    effects = np.zeros((len(rest), matrix.shape[1]))
    for f in used:
        heights = boxes * (values - mean) / sides[f]
        size = len(edges[f])
        starts = np.bincount(lows[:, f], weights=heights, minlength=size)
        ends = np.bincount(highs[:, f], weights=heights, minlength=size)
        marginal = np.cumsum(starts - ends)[:-1]
        effects[:, f] = marginal[np.searchsorted(cuts[f], matrix[rest, f])]
    return effects


def _measure_edges(values: NDArray[np.float32], cuts: Numbers) -> Numbers:
    """Return at 0, at each cut and at 1 the part of the runs that lie below."""
    below = np.searchsorted(np.sort(values), cuts, side="right") / len(values)
    return np.concatenate(([0.0], below, [1.0]))


def _bound_nodes(tree: Any, cuts: Sequence[Numbers]) -> tuple[Places, Places]:
    """Return between which cuts of each column a node lies, as indices; parents come first."""
    lows = np.zeros((tree.node_count, len(cuts)), dtype=np.int64)
    highs = np.tile([len(cut) + 1 for cut in cuts], (tree.node_count, 1))
    for node in range(tree.node_count):
        left, right = tree.children_left[node], tree.children_right[node]
        if left < 0:
            continue
        f = tree.feature[node]
        place = int(np.searchsorted(cuts[f], tree.threshold[node])) + 1
        lows[left], highs[left] = lows[node], highs[node]
        lows[right], highs[right] = lows[node], highs[node]
        highs[left, f] = lows[right, f] = place
    return lows, highs
