"""A sweep that is read again and again from its server, never more often than in a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deployer.page.sweep_document import CURVES_SHOWN
from deployer.report.collection import Material, read_curves
from deployer.report.content import TextFile, build_document
from deployer.wandb_api.model import SweepPath
from deployer.wandb_api.server import Server

REFRESH_SECONDS = 15.0


class Reader:
    """What the page asks for; one question at a time goes to the server."""

    def __init__(
        self,
        server: Server,
        path: SweepPath,
        collect: Callable[[], Material],
        lock_file: TextFile | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self._server = server
        self._collect = collect
        self._lock_file = lock_file
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._material: Material | None = None
        self._read_at = 0.0
        self._curves: dict[tuple[str, str], Mapping[str, Any] | None] = {}

    def document(self) -> dict[str, Any]:
        """Return the page's document; raises WandbError."""
        with self._lock:
            return build_document(self._read(), self._lock_file)

    def importance(self) -> Mapping[str, Any]:
        """Return what the parameters explain of the metric; raises WandbError."""
        with self._lock:
            return self._read().importance

    def curves(self, metric: str, names: Sequence[str]) -> list[Mapping[str, Any]]:
        """Return the curves of a metric of some runs; raises WandbError."""
        chosen = list(dict.fromkeys(names))[:CURVES_SHOWN]
        with self._lock:
            known = {run.run_id: run for run in self._read().source.runs}
            runs = [known[n] for n in chosen if n in known and (metric, n) not in self._curves]
            found = {curve["run"]: curve for curve in self._ask(metric, runs)}
            self._curves |= {(metric, run.run_id): found.get(run.run_id) for run in runs}
            curves = (self._curves.get((metric, name)) for name in chosen)
            return [curve for curve in curves if curve is not None]

    def _ask(self, metric: str, runs: Sequence[Any]) -> list[dict[str, Any]]:
        return read_curves(self._server, self.path, runs, metric)

    def _read(self) -> Material:
        now = self._monotonic()
        if self._material is None or now - self._read_at >= REFRESH_SECONDS:
            self._material = self._collect()
            self._read_at = now
            metric = self._material.results.metric or ""
            self._curves = {(metric, curve["run"]): curve for curve in self._material.curves}
        return self._material
