"""What upkeep, a search and a best value read does not grow with the runs that have ended."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer.backend.db.accounts import ProjectRow
from deployer.backend.db.rows import Connection, change, delete, find, get
from deployer.backend.db.runs import RunRow
from deployer.backend.db.sweeps import SweepRow
from deployer.backend.scheduling.dispatch import heartbeat
from deployer.backend.scheduling.early_termination import EarlyTermination
from deployer.backend.scheduling.suggestions import Derived
from deployer.backend.server.file_stream import apply_chunk, parse_chunk
from tests.backend.bench import Bench
from tests.backend.client import Client, grid
from tests.conftest import ServedBackend

RULE = {"type": "hyperband", "min_iter": 1, "eta": 2}
DRAWN = {"method": "random", "parameters": {"x": {"min": 0.0, "max": 1.0}}}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.backend.close()


def finish_runs(bench: Bench, sweep: SweepRow, count: int) -> str:
    """Have so many runs log two lines and end; return the last one's name."""
    agent, name = bench.agent(sweep)[0], ""
    with bench.backend.store.transaction() as db:
        for number in range(count):
            name = heartbeat(bench.backend, agent, set())[0]["run_id"]
            run = find(db, RunRow, project_id=get(db, ProjectRow, 1).id, name=name)
            assert run
            run = change(db, run, state="running", started_at=1.0)
            rows = [json.dumps({"_step": step, "loss": number + step}) for step in range(2)]
            files = {
                "wandb-history.jsonl": {"offset": 0, "content": rows},
                "wandb-summary.json": {"offset": 0, "content": rows[-1:]},
            }
            apply_chunk(bench.backend, db, run, parse_chunk({"files": files, "complete": True}))
    return name


class Derivations:
    """A value for each run, and how many runs it was made for since somebody asked."""

    def __init__(self, bench: Bench) -> None:
        self.made: list[str] = []
        self.of = Derived(bench.backend.store, "name, state", self._derive)

    def _derive(self, _: SweepRow, row: sqlite3.Row) -> str:
        self.made.append(row["name"])
        return str(row["state"])

    def take(self) -> list[str]:
        made, self.made = self.made, []
        return [name.rpartition("-")[2] for name in made]


def test_only_what_has_changed_is_derived_anew(bench: Bench) -> None:
    sweep, known = bench.sweep(**DRAWN), Derivations(bench)
    last = finish_runs(bench, sweep, 5)
    with bench.backend.store.snapshot() as db:
        assert list(known.of.read(db, sweep).values()) == ["finished"] * 5
    assert known.take() == ["0", "1", "2", "3", "4"]
    with bench.backend.store.transaction() as db:
        change(db, bench.run(last), state="failed")
    for expected in (["4"], []):
        with bench.backend.store.snapshot() as db:
            assert list(known.of.read(db, sweep).values()) == ["finished"] * 4 + ["failed"]
        assert known.take() == expected


def test_what_is_undone_is_forgotten(bench: Bench) -> None:
    sweep, known = bench.sweep(**DRAWN), Derivations(bench)
    last = finish_runs(bench, sweep, 2)
    with bench.backend.store.snapshot() as db:
        known.of.read(db, sweep)
    with contextlib.suppress(RuntimeError), bench.backend.store.transaction() as db:
        change(db, bench.run(last), state="failed")
        assert list(known.of.read(db, sweep).values()) == ["finished", "failed"]
        raise RuntimeError
    with bench.backend.store.snapshot() as db:
        assert list(known.of.read(db, sweep).values()) == ["finished", "finished"]


def test_a_run_that_is_deleted_is_not_there_any_more(bench: Bench) -> None:
    sweep, known = bench.sweep(**DRAWN), Derivations(bench)
    last = finish_runs(bench, sweep, 3)
    with bench.backend.store.snapshot() as db:
        known.of.read(db, sweep)
    with bench.backend.store.transaction() as db:
        delete(db, bench.run(last))
    with bench.backend.store.snapshot() as db:
        assert list(known.of.read(db, sweep).values()) == ["finished"] * 2


def count_steps(db: Connection, sweep: SweepRow, bench: Bench) -> int:
    """Return how many instructions SQLite takes for a search's question and the best value."""
    steps: list[None] = []
    db.set_progress_handler(lambda: steps.append(None), 1)
    bench.backend.suggestions.ask_question(db, sweep, 1)
    bench.backend.metrics.read(db, sweep)
    db.set_progress_handler(None, 1)
    return len(steps)


def test_a_question_reads_what_has_changed(bench: Bench) -> None:
    found = []
    for count in (10, 100):
        sweep = bench.sweep(**DRAWN, name=str(count))
        finish_runs(bench, sweep, count)
        with bench.backend.store.snapshot() as db:
            at_first = count_steps(db, sweep, bench)
        finish_runs(bench, sweep, 1)
        with bench.backend.store.transaction() as db:
            found.append((at_first > 20 * count, count_steps(db, sweep, bench)))
    (few_read, few), (many_read, many) = found
    assert few_read
    assert many_read
    assert many <= few + 10  # a level of an index


def test_upkeep_reads_what_has_changed(bench: Bench) -> None:
    sweep, rule = bench.sweep(**DRAWN, early_terminate=RULE), EarlyTermination(bench.backend)
    statements: list[str] = []
    found = []
    for count in (10, 90):
        finish_runs(bench, sweep, count)
        rule.stop_poor_runs()
        with bench.backend.store.snapshot() as db:  # the next one gets the same connection
            db.set_trace_callback(statements.append)
        for more in (0, 1):
            statements.clear()
            finish_runs(bench, sweep, more)
            rule.stop_poor_runs()
            found.append(len(statements))
    assert found[:2] == found[2:]
    assert found[1] - found[0] == 1  # the lines of the run that has ended


AGENTS_FIRST = """
query SweepWithRuns($project: String, $sweep: String!, $specs: [JSONString!]!) {
  project(name: $project) { sweep(sweepName: $sweep) {
    config bestLoss runs { edges { node { name sampledHistory(specs: $specs) } } } } } }
"""


def test_an_agents_first_question_gets_no_more_runs_than_a_page(backend: ServedBackend) -> None:
    client = Client.of(backend, "first-question")
    sweep = client.create_sweep(grid(x=list(range(60))))
    for number in range(60):
        client.heartbeat(client.create_agent(sweep, f"host-{number}"))
    for specs, count in (("{}", 50), ('{"keys": ["_step", "loss"], "samples": 100}', 60)):
        found = client.ask(AGENTS_FIRST, sweep=sweep, specs=specs)["project"]["sweep"]
        assert (len(found["runs"]["edges"]), found["bestLoss"]) == (count, None)
