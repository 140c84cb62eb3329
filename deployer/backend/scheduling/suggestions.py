"""The next configuration of a sweep, made ahead of the agent that asks for it.

A model takes up to a second, an agent wants its answer at once: as soon as a run was handed out,
a thread begins with what comes next. The server's writer never waits for it: a request that comes
too early is undone, and done again once the suggestion is there.
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
# With so many outcomes the newest run's is left out, so that the next suggestion can be made while
# that run is at work, and is the same whenever it is made.
MANY_OUTCOMES = 100
# While other runs are at work, the outcomes of so small a part of all may be missing as well.
LATE_OUTCOMES = 0.01
# Words of W&B's schema; its own engine takes the same value for each if a run has one.
IMPUTED_WHILE_RUNNING = ("best", "worst", "latest")
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _KnownSuggestions(Generic[T]):
    config: str
    mark: Mark
    values: Mapping[int, T] = field(default_factory=dict)


class Derived(Generic[T]):
    """A value for each run of a sweep, by the run's row; may be asked from several threads.

    `derive` makes it of the run's `columns`, and of the sweep.
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
        # What is not committed yet may be undone.
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
    """All that a suggestion depends on."""

    settings: Mapping[str, Any]
    seed: str
    runs: tuple[SearchRun, ...]
    ordinal: int

    def answered_by(self, earlier: Question) -> bool:
        """Return whether the answer to an earlier question is good enough for this one.

        It knows of every configuration that was handed out, and of nearly all outcomes.
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
    """A suggestion to make: for a question, or for whoever asks next; `ready` once it is made."""

    sweep_id: int
    question: Question | None = None
    ready: Future[None] = field(default_factory=Future)


class NotReady(Exception):
    """A model is at work on what a request asked for, which has to ask again when it is `ready`."""

    def __init__(self, ready: Future[None]) -> None:
        super().__init__("the next suggestion is in the making")
        self.ready = ready


def _counts_running(sweep: SweepRow) -> bool:
    metric = sweep.settings.get("metric")
    return isinstance(metric, dict) and metric.get("impute_while_running") in IMPUTED_WHILE_RUNNING


def _search_run(sweep: SweepRow, row: sqlite3.Row) -> SearchRun:
    """Read a run as the search sees it.

    With W&B's `impute_while_running`, a run at work counts as if it had ended with what its summary
    says now; one that has logged nothing yet is only known to be under way.
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
    """Answers questions, those for a model with what was prepared."""

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
        """Make the sweep's next suggestion soon; only a model needs that. Forget an ended one's."""
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
        """Return a sweep's configuration of a number, None when a grid is done.

        Raise NotReady while a model is at work on it. Whoever asks `again` takes what was made for
        the first question, whatever has ended since.
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
        """End the thread; what it is at work on is given up."""
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
        """Make what is wanted, one after the other; the first of `_wanted` is in the making."""
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
            if wanted.question is None and not self._closed:  # nobody waits who would be told
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
        """Read what an agent that came now would ask; None if it would get nothing new.

        This is read after the change that called for it, which may still be in the writing.
        """
        with self._store.transaction():
            pass
        with self._store.snapshot() as db:
            sweep = get(db, SweepRow, sweep_id)
            ordinal = None if sweep.ended else free_ordinal(db, sweep)
            return None if ordinal is None else self.ask_question(db, sweep, ordinal)
