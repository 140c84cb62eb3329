"""Curves of runs, read again only when their run has sent something new."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from deployer.backend.db.lines import read_rows
from deployer.backend.db.runs import Run
from deployer.backend.db.store import Store
from deployer.page.curves import build_curve, describe_curve

REMEMBERED_CURVES = 1000  # about 30 kB each


class CurveCache:
    """Curves of one metric by run, as documents."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[tuple[int, str], tuple[object, dict[str, Any]]] = OrderedDict()

    def curve(self, run: Run, metric: str) -> dict[str, Any]:
        """Return the curve of a metric of one run."""
        key, version = (run.id, metric), (run.attempt, run.heartbeat_at)
        known = self._known.pop(key, None)
        if known is None or known[0] != version:
            with self._store.snapshot() as db:
                rows = read_rows(db, run.id)
            known = (version, {"run": run.name, **describe_curve(build_curve(rows, metric))})
        self._known[key] = known
        while len(self._known) > REMEMBERED_CURVES:
            self._known.popitem(last=False)
        return known[1]
