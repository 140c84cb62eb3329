"""The next configuration of a bayes sweep, made ahead of the agent that asks for it.

A model takes up to a second, an agent wants its answer at once: as soon as a run was handed out,
a thread begins with what comes next.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from deployer.backend.db.database import Connection, Store
from deployer.backend.db.lines import parse_row
from deployer.backend.db.sweeps import Sweep, sweep_by_id
from deployer.backend.scheduling.numbering import free_ordinal
from deployer.backend.scheduling.search.engine import SearchEngine
from deployer.backend.scheduling.search.runs import ENDED, SearchRun
from deployer.sweeps.metrics import metric_value

# With so many outcomes the newest run's is left out, so that the next suggestion can be made while
# that run is at work, and is the same whenever it is made.
MANY_OUTCOMES = 100
# While other runs are at work, the outcomes of so small a part of all may be missing as well.
LATE_OUTCOMES = 0.01
KNOWN_OUTCOMES = 20_000  # parsed summaries that are remembered
# Words of W&B's schema; its own engine takes the same value for each if a run has one.
IMPUTED_WHILE_RUNNING = ("best", "worst", "latest")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Question:
    """All that a suggestion depends on."""

    settings: Mapping[str, Any]
    seed: str
    runs: tuple[SearchRun, ...]
    ordinal: int

    def answered_by(self, earlier: Question) -> bool:
        """Tell whether the answer to an earlier question is good enough for this one.

        It knows of every configuration that was handed out, and of nearly all outcomes.
        """
        if (self.settings, self.seed, self.ordinal, len(self.runs)) != (
            earlier.settings,
            earlier.seed,
            earlier.ordinal,
            len(earlier.runs),
        ):
            return False
        pairs = list(zip(self.runs, earlier.runs, strict=True))
        if any(now.arguments != then.arguments for now, then in pairs):
            return False
        changed = sum(now != then for now, then in pairs)
        ended = sum(run.ended for run in self.runs)
        return changed <= min(len(self.runs) - ended, int(LATE_OUTCOMES * ended))


def ask_question(db: Connection, sweep: Sweep, ordinal: int) -> Question:
    """Read what the search needs to know of a sweep.

    With W&B's `impute_while_running`, a run at work counts as if it had ended with what its summary
    says now; one that has logged nothing yet is only known to be under way.
    """
    rows = db.execute(
        "SELECT args, CASE WHEN args IS NULL THEN config END, state, summary FROM runs"
        " WHERE sweep_id = ? ORDER BY id",
        (sweep.id,),
    )
    metric, goal = sweep.metric_name, sweep.metric_goal
    counted = (*ENDED, "running") if _counts_running(sweep) else ENDED
    runs = tuple(
        _search_run(args, config, state, summary if state in counted else "", metric, goal)
        for args, config, state, summary in rows
    )
    if runs and sum(run.ended for run in runs) > MANY_OUTCOMES:
        runs = (*runs[:-1], replace(runs[-1], state="running", value=None))
    return Question(sweep.settings, sweep.seed, runs, ordinal)


def _counts_running(sweep: Sweep) -> bool:
    metric = sweep.settings.get("metric")
    return isinstance(metric, dict) and metric.get("impute_while_running") in IMPUTED_WHILE_RUNNING


def next_question(db: Connection, sweep_id: int) -> Question | None:
    """Read what an agent that came now would ask; None if it would get nothing new."""
    sweep = sweep_by_id(db, sweep_id)
    ordinal = None if sweep.ended else free_ordinal(db, sweep)
    return None if ordinal is None else ask_question(db, sweep, ordinal)


@lru_cache(maxsize=KNOWN_OUTCOMES)
def _search_run(
    args: str | None, config: str | None, state: str, summary: str, metric: str | None, goal: str
) -> SearchRun:
    value = metric_value(parse_row(summary) or {}, metric, goal) if metric else None
    if state == "running" and value is not None:
        state = "finished"
    if args is not None:
        return SearchRun(json.loads(args), state, value)
    wrapped = parse_row(config or "{}") or {}
    plain = {n: v["value"] for n, v in wrapped.items() if isinstance(v, dict) and "value" in v}
    return SearchRun(plain, state, value)


class Suggestions:
    """Answers questions, if it can with what it has prepared."""

    def __init__(self, store: Store, engine: SearchEngine) -> None:
        self._store, self._engine = store, engine
        self._changed = threading.Condition()
        self._wanted: list[int] = []
        self._prepared: dict[int, tuple[Question, dict[str, Any] | None]] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def prepare(self, sweep: Sweep) -> None:
        """Make the sweep's next suggestion soon; only a model needs that."""
        if sweep.method != "bayes" or sweep.ended or sweep.local_scheduler:
            return
        with self._changed:
            if sweep.id not in self._wanted[1:]:
                self._wanted.append(sweep.id)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def answer(self, sweep: Sweep, question: Question) -> dict[str, Any] | None:
        """Return the configuration, waiting for it if need be; None when a grid is done."""
        with self._changed:
            while not self._has(sweep, question) and sweep.id in self._wanted:
                self._changed.wait()
            if self._has(sweep, question):
                return self._prepared[sweep.id][1]
        return self._suggest(question)

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread:
            self._thread.join()

    def _has(self, sweep: Sweep, question: Question) -> bool:
        found = self._prepared.get(sweep.id)
        return found is not None and question.answered_by(found[0])

    def _suggest(self, question: Question) -> dict[str, Any] | None:
        runs = list(question.runs)
        return self._engine.suggest(question.settings, question.seed, runs, question.ordinal)

    def _work(self) -> None:
        """Make what is wanted, one after the other; the first of `_wanted` is in the making."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted or self._closed)
                if self._closed:
                    return
                sweep_id = self._wanted[0]
            try:
                self._make(sweep_id)
            except Exception:  # whoever asks meets it again, and is told
                logger.exception("no suggestion could be prepared")
            with self._changed:
                self._wanted.pop(0)
                self._changed.notify_all()

    def _make(self, sweep_id: int) -> None:
        with self._store.transaction() as db:
            question = next_question(db, sweep_id)
        known = self._prepared.get(sweep_id)
        if question is None:
            self._prepared.pop(sweep_id, None)
        if question is None or (known and question.answered_by(known[0])):
            return
        args = self._suggest(question)
        with self._changed:
            self._prepared[sweep_id] = question, args
