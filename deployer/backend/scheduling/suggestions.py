"""The next configuration of a sweep, computed before an agent asks for it.

A model takes up to a second, but agents need an answer at once. So a thread computes the next
suggestion as soon as a run is assigned. The server's writer never waits for it: a request that
comes too early is rolled back, and repeated once the suggestion is ready.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from deployer.backend.db.rows import Connection, get
from deployer.backend.db.runs import Mark, changed_since, mark_of
from deployer.backend.db.store import Database
from deployer.backend.db.sweeps import SweepRow
from deployer.backend.request import read_object
from deployer.backend.scheduling.numbering import free_ordinal
from deployer.backend.scheduling.search import ENDED, SearchEngine, SearchRun, needs_model
from deployer.sweeps.results import metric_value

T = TypeVar("T")

KEPT_SWEEPS = 16
# With this many outcomes, leave out the newest run's, so that the next suggestion can be computed
# while that run is active, and does not depend on when it is computed.
MANY_OUTCOMES = 100
# While other runs are active, this fraction of outcomes may also be missing.
LATE_OUTCOMES = 0.01
# Values in W&B's schema; its engine uses the run's current value for all of them, if it has one.
IMPUTED_WHILE_RUNNING = ("best", "worst", "latest")
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _KnownSuggestions(Generic[T]):
    config: str
    mark: Mark
    values: Mapping[int, T] = field(default_factory=dict)


class Derived(Generic[T]):
    """A cached value for each run of a sweep, by the run's row id; thread-safe.

    `derive` computes it from the sweep and the run's `columns`.
    """

    def __init__(
        self, store: Database, columns: str, derive: Callable[[SweepRow, sqlite3.Row], T]
    ) -> None:
        self._store, self._columns, self._derive = store, f"id, {columns}", derive
        self._known: OrderedDict[int, _KnownSuggestions[T]] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, db: Connection, sweep: SweepRow) -> Mapping[int, T]:
        """Return the values of a sweep's runs, oldest first."""
        mark = mark_of(db, sweep.id)
        known = self._find(sweep, mark)
        changed = {
            row["id"]: self._derive(sweep, row)
            for row in changed_since(db, sweep.id, known.mark.revision, self._columns)
        }
        values = dict(sorted({**known.values, **changed}.items())) if changed else known.values
        # Do not cache uncommitted changes, which may be rolled back.
        if mark.revision >= known.mark.revision and not self._store.is_writing(db):
            self._keep(sweep.id, _KnownSuggestions(sweep.config, mark, values))
        return values

    def _find(self, sweep: SweepRow, mark: Mark) -> _KnownSuggestions[T]:
        with self._lock:
            known = self._known.get(sweep.id)
        if known and (known.config, known.mark.removals) == (sweep.config, mark.removals):
            return known
        return _KnownSuggestions(sweep.config, Mark(-1, mark.removals))

    def _keep(self, sweep_id: int, known: _KnownSuggestions[T]) -> None:
        with self._lock:
            self._known[sweep_id] = known
            self._known.move_to_end(sweep_id)
            if len(self._known) > KEPT_SWEEPS:
                self._known.popitem(last=False)


@dataclass(frozen=True)
class Question:
    """The inputs of a suggestion."""

    settings: Mapping[str, Any]
    seed: str
    runs: tuple[SearchRun, ...]
    ordinal: int

    def answered_by(self, earlier: Question) -> bool:
        """Return True if the answer to an earlier question is good enough for this one.

        That one must have all assigned configurations and nearly all outcomes.
        """
        if not self.is_about(earlier):
            return False
        pairs = zip(self.runs, earlier.runs, strict=True)
        changed = sum(now is not then and now != then for now, then in pairs)
        ended = sum(run.ended for run in self.runs)
        return changed <= min(len(self.runs) - ended, int(LATE_OUTCOMES * ended))

    def is_about(self, earlier: Question) -> bool:
        if (self.settings, self.seed, self.ordinal, len(self.runs)) != (
            earlier.settings,
            earlier.seed,
            earlier.ordinal,
            len(earlier.runs),
        ):
            return False
        pairs = zip(self.runs, earlier.runs, strict=True)
        return all(now is then or now.arguments == then.arguments for now, then in pairs)


@dataclass(frozen=True)
class WantedSuggestion:
    """A pending suggestion: for a question, or for the next request; `ready` is its future."""

    sweep_id: int
    question: Question | None = None
    ready: Future[None] = field(default_factory=Future)


class NotReady(Exception):
    """A model is computing the suggestion; repeat the request when it is `ready`."""

    def __init__(self, ready: Future[None]) -> None:
        super().__init__("the next suggestion is being computed")
        self.ready = ready


def _counts_running(sweep: SweepRow) -> bool:
    metric = sweep.settings.get("metric")
    return isinstance(metric, dict) and metric.get("impute_while_running") in IMPUTED_WHILE_RUNNING


def _search_run(sweep: SweepRow, row: sqlite3.Row) -> SearchRun:
    """Convert a run for the search.

    With W&B's `impute_while_running`, an active run counts as finished with its current summary
    value; if it has none yet, it is only pending.
    """
    metric, state = sweep.metric_name, row["state"]
    counted = state in ENDED or (state == "running" and _counts_running(sweep))
    summary = read_object(row["summary"]) if counted and metric else None
    value = metric_value(summary or {}, metric, sweep.metric_goal) if metric else None
    if state == "running" and value is not None:
        state = "finished"
    if row["args"] is not None:
        return SearchRun(json.loads(row["args"]), state, value)
    wrapped = read_object(row["config"] or "{}") or {}
    plain = {n: v["value"] for n, v in wrapped.items() if isinstance(v, dict) and "value" in v}
    return SearchRun(plain, state, value)


class Suggestions:
    """Answers questions; uses prepared suggestions for those that need a model."""

    def __init__(self, store: Database, engine: SearchEngine) -> None:
        self._store, self._engine = store, engine
        columns = "args, CASE WHEN args IS NULL THEN config END AS config, state, summary"
        self._runs = Derived(store, columns, _search_run)
        self._changed = threading.Condition()
        self._wanted: list[WantedSuggestion] = []
        self._prepared: dict[int, tuple[Question, dict[str, Any] | None]] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def prepare(self, sweep: SweepRow) -> None:
        """Queue the sweep's next suggestion if it needs a model; drop that of an ended sweep."""
        if sweep.method != "bayes" or sweep.local_scheduler:
            return
        with self._changed:
            if sweep.ended:
                self._prepared.pop(sweep.id, None)
            elif all(one.sweep_id != sweep.id for one in self._wanted[1:]):
                self._want(WantedSuggestion(sweep.id))

    def find(
        self, db: Connection, sweep: SweepRow, ordinal: int, again: bool = False
    ) -> dict[str, Any] | None:
        """Return a sweep's configuration by its number, None when a grid is done.

        Raise NotReady while a model is computing it. With `again`, accept the answer to the first
        request, even if runs have ended since.
        """
        if sweep.method != "bayes":
            return self._engine.suggest(sweep.settings, sweep.seed, (), ordinal)
        question = self.ask_question(db, sweep, ordinal)
        if not needs_model(question.settings, question.runs):
            return self._suggest(question)
        with self._changed:
            found = self._prepared.get(sweep.id)
            fits = question.is_about if again else question.answered_by
            if found and fits(found[0]):
                return found[1]
            for one in self._wanted:
                if one.question and question.is_about(one.question):
                    raise NotReady(one.ready)
            wanted = WantedSuggestion(sweep.id, question)
            self._want(wanted)
        raise NotReady(wanted.ready)

    def ask_question(self, db: Connection, sweep: SweepRow, ordinal: int) -> Question:
        runs = tuple(self._runs.read(db, sweep).values())
        if runs and sum(run.ended for run in runs) > MANY_OUTCOMES:
            runs = (*runs[:-1], replace(runs[-1], state="running", value=None))
        return Question(sweep.settings, sweep.seed, runs, ordinal)

    def close(self) -> None:
        """End the thread; abandon its current suggestion."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._engine.close()
        if self._thread:
            self._thread.join()

    def _want(self, wanted: WantedSuggestion) -> None:
        self._wanted.append(wanted)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="suggestions", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _suggest(self, question: Question) -> dict[str, Any] | None:
        runs = list(question.runs)
        return self._engine.suggest(question.settings, question.seed, runs, question.ordinal)

    def _work(self) -> None:
        """Compute the wanted suggestions in order; the first of `_wanted` is in progress."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted or self._closed)
                if self._closed:
                    return
                wanted = self._wanted[0]
            failure = self._try(wanted)
            with self._changed:
                self._wanted.pop(0)
            if failure:
                wanted.ready.set_exception(failure)
            else:
                wanted.ready.set_result(None)

    def _try(self, wanted: WantedSuggestion) -> Exception | None:
        try:
            self._make(wanted)
        except Exception as failure:
            if wanted.question is None and not self._closed:  # no request waits for the error
                logger.exception("no suggestion could be prepared")
            return failure
        return None

    def _make(self, wanted: WantedSuggestion) -> None:
        question = wanted.question or self._read_question(wanted.sweep_id)
        known = self._prepared.get(wanted.sweep_id)
        if question is None:
            self._prepared.pop(wanted.sweep_id, None)
        if question is None or (known and question.answered_by(known[0])):
            return
        args = self._suggest(question)
        with self._changed:
            self._prepared[wanted.sweep_id] = question, args

    def _read_question(self, sweep_id: int) -> Question | None:
        """Return the question of an agent that would ask now; None if there is no new run.

        First waits for the writer, so that the change that requested it is committed.
        """
        with self._store.transaction():
            pass
        with self._store.snapshot() as db:
            sweep = get(db, SweepRow, sweep_id)
            ordinal = None if sweep.ended else free_ordinal(db, sweep)
            return None if ordinal is None else self.ask_question(db, sweep, ordinal)
