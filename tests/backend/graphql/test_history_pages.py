"""What a page or a sample of a long history reads, and which rows it has."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from deployer.backend.db.accounts import ensure_project
from deployer.backend.db.lines import write_lines
from deployer.backend.db.rows import Connection
from deployer.backend.db.runs import insert_run
from deployer.backend.graphql.schema import GraphQL, GraphQLRequest
from deployer.backend.scheduling.context import Request
from tests.backend.bench import Bench

SERVED = GraphQL()
# As SDKs ask for steps from 40 to 49; the last one is what wandb-core sends with keys.
PAGES = {
    "rows": "history(minStep: 40, maxStep: 50, samples: 10)",
    "keys, older": {"keys": ["v"], "minStep": 40, "maxStep": 50, "samples": 10},
    "keys": {"keys": ["_step", "v"], "minStep": 40, "maxStep": 49, "samples": 10},
}
SAMPLES = {
    "rows": "history(samples: 10)",
    "keys": {"keys": ["_step", "v"], "samples": 10},
    "events": "events(samples: 10)",
    "names": "historyKeys",
    "parquet": 'parquetHistory(liveKeys: ["never"]) { parquetUrls }',
}
# Steps out of order, written twice, and none that counts; lines that are no rows.
ODD_LINES = [
    *('{"_step": 5, "v": 0}', '{"_step": 2, "v": 1}', '{"v": 2}', '{"_step": true, "v": 3}'),
    *('{"_step": 2.5, "v": 4}', '{"_step": -3, "v": 5}', '{"_step": 1e300, "v": 6}', "[", "{}"),
    *('{"_step": NaN, "v": 7}', '{"_step": 5, "v": 8}', '{"_step": 9007199254740993, "v": 9}'),
    *('{"_step": "3", "v": 10}', "null", '{"_step": 9223372036854775807, "v": 11}'),
]
BOUNDS: list[tuple[int | None, int | None, list[int]]] = [
    (None, None, [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]),
    (0, 1, [2, 6, 7, 10]),
    (1, None, [0, 1, 3, 4, 8, 9, 11]),
    (2, 5, [1, 4]),
    (3, 6, [0, 8]),
    (-5, 0, [5]),
    (None, -1, []),
    (9007199254740992, 9007199254740993, []),
    (9007199254740993, 9007199254740994, [9]),
    (9223372036854775807, None, [11]),
]


class Logged:
    """A run, of which a test asks the schema as a client does."""

    def __init__(self, bench: Bench, db: Connection) -> None:
        self.bench, self.db = bench, db
        project = ensure_project(db, bench.me, None, "p", 0.0)
        run = insert_run(db, 0.0, project_id=project.id, user_id=bench.me.user.id, name="r")
        self.id = run.id

    def write(self, lines: Sequence[str], offset: int = 0) -> None:
        write_lines(self.db, self.id, "history", offset, lines)
        write_lines(self.db, self.id, "events", offset, lines)

    def write_steps(self, count: int, **row: Any) -> None:
        self.write([json.dumps({"_step": step, "v": step, **row}) for step in range(count)])

    def ask(self, asked: str | dict[str, Any]) -> Any:
        if isinstance(asked, dict):
            asked = f"sampledHistory(specs: [{json.dumps(json.dumps(asked))}])"
        question = GraphQLRequest(
            f'{{ project(name: "p") {{ run(name: "r") {{ it: {asked} }} }} }}', {}, None
        )
        request = Request(self.bench.backend, self.bench.me, "http://here")
        status, body = SERVED.answer(request, question)
        assert status == 200, body
        found = body["data"]["project"]["run"]["it"]
        return found[0] if asked.startswith("sampled") else found

    def values(self, asked: str | dict[str, Any]) -> list[int]:
        return [
            json.loads(row)["v"] if isinstance(row, str) else row["v"] for row in self.ask(asked)
        ]


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Logged]:
    bench = Bench(tmp_path)
    with bench.backend.store.transaction() as db:
        yield Logged(bench, db)
    bench.backend.close()


def count_instructions(logged: Logged, asked: str | dict[str, Any]) -> int:
    """Return how many instructions SQLite executes for an answer."""
    executed: list[None] = []
    logged.db.set_progress_handler(lambda: executed.append(None), 1)
    logged.ask(asked)
    logged.db.set_progress_handler(None, 1)
    return len(executed)


@pytest.mark.parametrize("asked", PAGES.values(), ids=PAGES)
def test_a_page_costs_the_same_in_a_long_run(logged: Logged, asked: str | dict[str, Any]) -> None:
    logged.write_steps(60)
    short = count_instructions(logged, asked)
    logged.write_steps(5000)
    assert count_instructions(logged, asked) < 1.2 * short
    assert logged.values(asked) == list(range(40, 50))


@pytest.mark.parametrize("asked", SAMPLES.values(), ids=SAMPLES)
def test_a_sample_does_not_take_memory_for_the_run(
    logged: Logged, asked: str | dict[str, Any]
) -> None:
    logged.write_steps(5000, text="x" * 1000)
    logged.ask(asked)
    tracemalloc.start()
    logged.ask(asked)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1_000_000


@pytest.mark.parametrize(("start", "stop", "found"), BOUNDS)
def test_a_page_has_the_rows_of_its_steps_in_the_order_of_their_lines(
    logged: Logged, start: int | None, stop: int | None, found: list[int]
) -> None:
    """A row whose step does not count is at 0."""
    logged.write(ODD_LINES[3:])
    logged.write(ODD_LINES)
    low, high = json.dumps(start), json.dumps(stop)
    assert logged.values(f"history(minStep: {low}, maxStep: {high})") == found
    spec = {"minStep": start, "maxStep": stop}
    assert logged.values(spec) == found
    assert logged.values({"keys": ["v"], **spec}) == found


def test_steps_of_any_size_may_be_asked_for(logged: Logged) -> None:
    logged.write_steps(3)
    assert logged.values({"minStep": -(10**400), "maxStep": 10**400}) == [0, 1, 2]
    assert logged.values({"minStep": 10**400}) == []


def test_a_line_that_is_sent_again_with_another_step_is_found_by_it(logged: Logged) -> None:
    logged.write_steps(3)
    logged.write(['{"_step": 7, "v": 7}'], offset=1)
    assert logged.values("history(minStep: 1, maxStep: 2)") == []
    assert logged.values("history(minStep: 2, maxStep: 9)") == [7, 2]
