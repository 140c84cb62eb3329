"""Regression trees on numbered bins, grown level by level, and what each column does in them.

Imports numpy: import it inside a call alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]
DEPTH = 8  # levels: 256 leaves at most
# A cut that saves less than so much of the squared error is one of rounding.
LEAST_GAIN = 1e-12


@dataclass(frozen=True)
class Tree:
    """A tree's leaves as boxes of bins: `lows` and `highs` (leaves x columns), the latter past it.

    `values` (leaves) are what they guess, `leaf_of` (runs) is where each run comes to.
    """

    lows: Places
    highs: Places
    values: Numbers
    leaf_of: Places

    @property
    def guesses(self) -> Numbers:
        """Return the tree's guess for each run."""
        return np.asarray(self.values[self.leaf_of])


@dataclass(frozen=True)
class _Cuts:
    """The best cut of each open node: its column, the last bin on the left, and whether to cut."""

    columns: Places
    bins: Places
    worth: NDArray[np.bool_]
    values: Numbers


def grow_tree(
    bins: Places, size: int, goal: Numbers, weights: Numbers, least: int, order: Places
) -> Tree:
    """Grow a tree on the runs that have a weight, at least `least` of it in each leaf.

    `bins` (runs x columns) are below `size`. Of equally good columns the first in `order` is cut.
    """
    bins = bins[:, order]
    runs, columns = bins.shape
    node, leaf_of = np.zeros(runs, dtype=np.int64), np.full(runs, -1)
    lows = np.zeros((1, columns), dtype=np.int64)
    highs = np.full((1, columns), size)
    leaves: list[tuple[Places, Places, Numbers]] = []
    known = 0
    for depth in range(DEPTH + 1):
        cuts = _find_cuts(bins, size, goal, weights, node, len(lows), least)
        worth = cuts.worth & (depth < DEPTH)
        leaves.append((lows[~worth], highs[~worth], cuts.values[~worth]))
        number = known + np.cumsum(~worth) - 1
        ended = (node >= 0) & ~worth[node]
        leaf_of[ended] = number[node[ended]]
        known += int((~worth).sum())
        if not worth.any():
            break
        node = _send_down(bins, node, cuts, worth, ended)
        lows, highs = _cut_boxes(lows[worth], highs[worth], cuts.columns[worth], cuts.bins[worth])
    back = np.argsort(order)
    boxes = [np.concatenate([one[n] for one in leaves])[:, back] for n in (0, 1)]
    return Tree(boxes[0], boxes[1], np.concatenate([one[2] for one in leaves]), leaf_of)


def _find_cuts(
    bins: Places,
    size: int,
    goal: Numbers,
    weights: Numbers,
    node: Places,
    nodes: int,
    least: int,
) -> _Cuts:
    """Return for each node the cut after which the squared error is least."""
    used = np.flatnonzero((weights > 0) & (node >= 0))
    columns = bins.shape[1]
    flat = ((node[used, None] * columns + np.arange(columns)) * size + bins[used]).ravel()
    weight = np.repeat(weights[used], columns)
    product = np.repeat(weights[used] * goal[used], columns)
    shape = (nodes, columns, size)
    counts = np.bincount(flat, weight, minlength=nodes * columns * size).reshape(shape)
    sums = np.bincount(flat, product, minlength=nodes * columns * size).reshape(shape)
    count, total = counts[:, 0].sum(axis=1), sums[:, 0].sum(axis=1)
    left, left_sum = counts.cumsum(axis=2)[:, :, :-1], sums.cumsum(axis=2)[:, :, :-1]
    right, right_sum = count[:, None, None] - left, total[:, None, None] - left_sum
    gains = left_sum**2 / np.maximum(left, 1) + right_sum**2 / np.maximum(right, 1)
    gains -= (total**2 / count)[:, None, None]
    gains[(left < least) | (right < least)] = -np.inf
    flat_gains = gains.reshape(nodes, -1)
    best = flat_gains.argmax(axis=1)
    column, cut = np.divmod(best, size - 1)
    rows = np.arange(nodes)
    bound = LEAST_GAIN * float(weights @ goal**2)
    worth = flat_gains[rows, best] > bound
    return _Cuts(column, _find_middles(counts[rows, column] > 0, cut), worth, total / count)


def _find_middles(present: NDArray[np.bool_], cut: Places) -> Places:
    """Move each cut to the middle of the bins of which the sample has nothing."""
    behind = present & (np.arange(present.shape[1]) > cut[:, None])
    return np.asarray(cut + np.maximum(0, behind.argmax(axis=1) - cut - 1) // 2)


def _send_down(
    bins: Places, node: Places, cuts: _Cuts, worth: NDArray[np.bool_], ended: NDArray[np.bool_]
) -> Places:
    """Return the next node of each run, -1 for those that have come to a leaf."""
    places = np.cumsum(worth) - 1
    going = np.flatnonzero((node >= 0) & ~ended)
    at = node[going]
    right = bins[going, cuts.columns[at]] > cuts.bins[at]
    below = np.full(len(node), -1)
    below[going] = 2 * places[at] + right
    return below


def _cut_boxes(lows: Places, highs: Places, columns: Places, bins: Places) -> tuple[Places, Places]:
    """Return the boxes of each node's two children, one after the other."""
    low, high = np.repeat(lows, 2, axis=0), np.repeat(highs, 2, axis=0)
    rows = 2 * np.arange(len(columns))
    high[rows, columns] = bins + 1
    low[rows + 1, columns] = bins + 1
    return low, high


def list_main_effects(tree: Tree, bins: Places, size: int) -> Numbers:
    """Return by how much each bin of each column (columns x bins) moves a tree's guess alone.

    A box' side along a column is the part of the runs that lie between its ends.
    """
    columns = bins.shape[1]
    which = np.arange(columns)
    counts = np.bincount((which * size + bins).ravel(), minlength=columns * size)
    edges = np.zeros((columns, size + 1))
    edges[:, 1:] = counts.reshape(columns, size).cumsum(axis=1) / len(bins)
    sides = edges[which, tree.highs] - edges[which, tree.lows]
    boxes = sides.prod(axis=1)
    heights = ((tree.values - boxes @ tree.values) * boxes)[:, None] / sides
    starts, ends = (
        np.bincount(
            (which * (size + 1) + bound).ravel(), heights.ravel(), minlength=columns * (size + 1)
        )
        for bound in (tree.lows, tree.highs)
    )
    return np.asarray((starts - ends).reshape(columns, size + 1).cumsum(axis=1)[:, :size])
