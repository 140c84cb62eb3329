"""The nested grids that the tests run, and the configurations that must come of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml


@dataclass(frozen=True)
class Grid:
    """A grid over `lr`, `layers` and a nested `optimizer`."""

    lrs: Sequence[float]
    layers: Sequence[int]
    names: Sequence[str]
    momenta: Sequence[float]

    @property
    def text(self) -> str:
        """The sweep file."""
        optimizer = {"name": {"values": [*self.names]}, "momentum": {"values": [*self.momenta]}}
        return yaml.safe_dump(
            {
                "program": "train.py",
                "project": "faults",
                "method": "grid",
                "metric": {"name": "loss", "goal": "minimize"},
                "parameters": {
                    "lr": {"values": [*self.lrs]},
                    "layers": {"values": [*self.layers]},
                    "optimizer": {"parameters": optimizer},
                },
            }
        )

    @property
    def configurations(self) -> list[dict[str, Any]]:
        """Every configuration, once."""
        return [
            {"lr": lr, "layers": layers, "optimizer": {"name": name, "momentum": momentum}}
            for lr, layers, name, momentum in itertools.product(
                self.lrs, self.layers, self.names, self.momenta
            )
        ]


# The 24 configurations of the promise; a sixth of them for faults that come by chance, and an
# eighth where a fault comes at once and so many times as it is told.
WHOLE = Grid((0.1, 0.2, 0.3), (1, 2), ("sgd", "adam"), (0.0, 0.9))
SMALL = Grid((0.1, 0.2), (1,), ("sgd", "adam"), (0.9,))
FEW = Grid((0.1, 0.2, 0.3), (1,), ("sgd",), (0.9,))
