"""What is derived from each run of a sweep, made anew for those runs alone that have changed."""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from deployer.backend.db.rows import Connection
from deployer.backend.db.runs import Mark, changed_since, mark_of
from deployer.backend.db.store import Store
from deployer.backend.db.sweeps import Sweep

T = TypeVar("T")

KEPT_SWEEPS = 16


@dataclass(frozen=True)
class _Known(Generic[T]):
    config: str
    mark: Mark
    values: Mapping[int, T] = field(default_factory=dict)


class Derived(Generic[T]):
    """A value for each run of a sweep, by the run's row; may be asked from several threads.

    `derive` makes it of the run's `columns`, and of the sweep.
    """

    def __init__(
        self, store: Store, columns: str, derive: Callable[[Sweep, sqlite3.Row], T]
    ) -> None:
        self._store, self._columns, self._derive = store, f"id, {columns}", derive
        self._known: OrderedDict[int, _Known[T]] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, db: Connection, sweep: Sweep) -> Mapping[int, T]:
        """Return the values of a sweep's runs, oldest first."""
        mark = mark_of(db, sweep.id)
        known = self._find(sweep, mark)
        changed = {
            row["id"]: self._derive(sweep, row)
            for row in changed_since(db, sweep.id, known.mark.revision, self._columns)
        }
        values = dict(sorted({**known.values, **changed}.items())) if changed else known.values
        # What is not committed yet may be undone.
        if mark.revision >= known.mark.revision and not self._store.is_writing(db):
            self._keep(sweep.id, _Known(sweep.config, mark, values))
        return values

    def _find(self, sweep: Sweep, mark: Mark) -> _Known[T]:
        with self._lock:
            known = self._known.get(sweep.id)
        if known and (known.config, known.mark.removals) == (sweep.config, mark.removals):
            return known
        return _Known(sweep.config, Mark(-1, mark.removals))

    def _keep(self, sweep_id: int, known: _Known[T]) -> None:
        with self._lock:
            self._known[sweep_id] = known
            self._known.move_to_end(sweep_id)
            if len(self._known) > KEPT_SWEEPS:
                self._known.popitem(last=False)
