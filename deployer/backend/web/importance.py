"""Parameter importance of sweeps, computed again only when more runs have been ranked.

It takes a second of a core or more, so only one is computed at a time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from deployer.page.importance import build_importance_document
from deployer.sweeps.results import Results

REMEMBERED = 50


class ImportanceCache:
    """Documents of importance by sweep."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[int, tuple[object, dict[str, Any]]] = OrderedDict()

    def read(self, sweep_id: int, results: Results) -> dict[str, Any]:
        """Return the document of a sweep."""
        ranked = [(row.run_id, row.value) for row in results.rows if row.rank is not None]
        with self._lock:
            known = self._known.pop(sweep_id, None)
            if known is None or known[0] != (results.metric, ranked):
                known = ((results.metric, ranked), build_importance_document(results))
            self._known[sweep_id] = known
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
            return known[1]
