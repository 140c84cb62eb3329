"""How runs and sweeps that did not simply finish look on their pages."""

from __future__ import annotations

import json
from typing import Any

from deployer.backend.db.accounts import ProjectRow
from deployer.backend.db.rows import change, get
from deployer.backend.db.sweeps import SweepRow, update_sweep
from deployer.backend.scheduling.run_endings import note_exit
from deployer.backend.web.results import SweepReader
from deployer.backend.web.views import open_site, show_run, show_sweep
from deployer.page.strict_json import to_strict_json
from tests.backend.bench import Bench
from tests.backend.pages_browser import list_rows


def sweep_page(bench: Bench, sweep: SweepRow) -> dict[str, Any]:
    place = {"entity": "me", "project": "p", "sweep": sweep.name}
    return show_sweep(open_site(bench.backend), bench.me, place)


def run_page(bench: Bench, name: str) -> dict[str, Any]:
    place = {"entity": "me", "project": "p", "run": name}
    return show_run(open_site(bench.backend), bench.me, place)


def test_a_sweep_that_lacks_a_run_is_incomplete(bench: Bench) -> None:
    sweep = bench.sweep(retries=0, run_cap=2)
    agent = bench.agent(sweep)
    for code in (0, 3):
        bench.send(bench.take(agent), complete=True, exitcode=code)
    assert bench.state(sweep)[0] == "FINISHED"
    data = sweep_page(bench, sweep)
    assert (data["state"], data["reason"]) == ("incomplete", None)
    (attempt,) = run_page(bench, f"{sweep.name}-1")["attempts"]
    assert (attempt["cause"], attempt["exit_code"]) == ("own failure", 3)


def test_the_page_counts_what_was_healed_as_the_terminal_does(bench: Bench) -> None:
    sweep = bench.sweep()
    agent = bench.agent(sweep)
    lost = bench.take(agent)
    bench.send(lost, preempting=True, deployerInterrupted="node", complete=True, exitcode=255)
    assert bench.take(agent) == lost
    bench.send(lost, complete=True, exitcode=0)
    failed = bench.take(agent)
    bench.send(failed, complete=True, exitcode=1)
    for _ in range(2):
        bench.send(bench.take(agent), complete=True, exitcode=0)
    data = sweep_page(bench, sweep)
    said = json.loads(to_strict_json(data))["coverage"]
    assert said == "3/3 configurations finished, 0 duplicates, 0 lost, 1 healed"
    rows = {row["id"]: row for row in list_rows(data)}
    assert [(rows[name]["attempt"], rows[name]["healed"]) for name in (lost, failed)] == [
        (2, True),
        (2, False),
    ]


def test_a_breaker_gives_its_reason(bench: Bench) -> None:
    sweep = bench.sweep()
    for agent in [bench.agent(sweep) for _ in range(3)]:
        bench.send(bench.take(agent), complete=True, exitcode=2)
    data = sweep_page(bench, sweep)
    reason = "3 configurations failed before any finished"
    assert (data["state"], data["reason"]) == ("failed", reason)


def test_a_run_that_ended_before_it_began_says_so(bench: Bench) -> None:
    agent = bench.agent(bench.sweep(retries=1))
    name = bench.beat(agent)["run_id"]
    bench.seconds += 5
    bench.beat(agent)
    data = run_page(bench, name)
    assert [attempt["cause"] for attempt in data["attempts"]] == ["never started"]
    assert (data["attempts"][0]["agent"], data["console"]) == ("host", [])
    assert data["note"] == "waits for its next attempt (ended before wandb.init)"


def test_a_run_that_ended_before_it_began_has_its_last_words_and_exit_code(bench: Bench) -> None:
    sweep = bench.sweep(retries=1, run_cap=1)
    agent = bench.agent(sweep, "a")
    name = bench.beat(agent)["run_id"]
    bench.seconds += 5
    with bench.backend.store.transaction() as db:
        note_exit(bench.backend, db, bench.run(name), "a", 1.0, 1, "no data\n")
    bench.beat(agent)
    data = run_page(bench, name)
    [attempt] = data["attempts"]
    assert (attempt["words"], attempt["exit_code"]) == ("ended before wandb.init: exit code 1", 1)
    assert (attempt["output"], data["console"]) == ("no data\n", ["no data"])
    [row] = list_rows(sweep_page(bench, sweep))
    waits = "waits for its next attempt (ended before wandb.init: exit code 1)"
    assert (row["state"], row["note"]) == ("preempted", waits)


def test_a_run_that_was_killed_behind_its_last_row_says_so(bench: Bench) -> None:
    sweep = bench.sweep()
    name = bench.take(bench.agent(sweep, "a"))
    bench.send(name, complete=True, exitcode=0, deployerExitUnseen=True)
    [row] = list_rows(sweep_page(bench, sweep))
    assert (row["state"], row["note"]) == ("finished", "all rows delivered, exit unknown")
    assert run_page(bench, name)["note"] == row["note"]


def test_a_run_has_one_name_and_tells_that_it_was_stopped_early(bench: Bench) -> None:
    sweep = bench.sweep(early_terminate={"type": "hyperband", "min_iter": 1})
    agent = bench.agent(sweep)
    names = []
    for code in (255, 0):  # the second comes to its own end before it hears that it is to stop
        names.append(bench.take(agent))
        with bench.backend.store.transaction() as db:
            change(db, bench.run(names[-1]), stop_requested_at=bench.seconds)
        bench.send(names[-1], complete=True, exitcode=code)
    names.append(bench.take(agent))
    rows = {row["id"]: row for row in list_rows(sweep_page(bench, sweep))}
    assert {row["title"] for row in rows.values()} == set(names)
    assert [rows[name]["stopped_early"] for name in names] == [True, False, False]
    assert run_page(bench, names[0])["stopped_early"]


def test_lines_of_ended_sweeps_are_remembered_up_to_a_number(bench: Bench) -> None:
    reader = SweepReader(bench.backend, most_heads=2)

    def head(sweep: SweepRow) -> dict[str, Any]:
        with bench.backend.store.snapshot() as db:
            return reader.head(db, get(db, ProjectRow, sweep.project_id), sweep)

    sweeps = []
    for number in range(3):
        made = bench.sweep(name=f"sweep {number}")
        with bench.backend.store.transaction() as db:
            sweeps.append(update_sweep(db, made, bench.seconds, state="FINISHED"))
    first, second = head(sweeps[0]), head(sweeps[1])
    assert head(sweeps[0]) is first
    head(sweeps[2])
    assert head(sweeps[0]) is first
    again = head(sweeps[1])
    assert (again == second, again is second) == (True, False)
