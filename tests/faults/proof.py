"""The proof: a recount of a sweep from what the server holds, line by line.

It asks in W&B's own GraphQL and shares no code with `deployer`, whose sums it checks.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests  # noqa: TID251 - a test is a client of its own

PAGE_STEPS = 500  # the server samples a history that is longer than a page

RUNS = """
query Runs($entity: String, $project: String!, $sweep: String!) {
  project(name: $project, entityName: $entity) { sweep(sweepName: $sweep) {
    state runs { edges { node { name state config exitcode historyLineCount } } } } } }
"""
HISTORY = """
query HistoryPage($entity: String, $project: String!, $run: String!,
                  $minStep: Int64!, $maxStep: Int64!, $samples: Int!) {
  project(name: $project, entityName: $entity) { run(name: $run) {
    history(minStep: $minStep, maxStep: $maxStep, samples: $samples) } } }
"""


@dataclass(frozen=True)
class RunRecord:
    """A run as the server holds it, with its rows; `steps` has `_step` of each, in their order."""

    name: str
    state: str
    exit_code: int | None
    config: dict[str, Any]
    line_count: int
    steps: tuple[int, ...]
    rows: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class RecordReader:
    """Asks a server directly, past any proxy."""

    url: str
    key: str

    def ask(self, query: str, **variables: Any) -> Any:
        """Send one GraphQL document that must succeed and return its data."""
        body = {"query": query, "variables": variables}
        reply = requests.post(f"{self.url}/graphql", json=body, auth=("api", self.key), timeout=60)
        assert reply.status_code == 200, reply.text
        return reply.json()["data"]

    def read_runs(self, sweep_path: str) -> list[RunRecord]:
        """Return every run of a sweep with its whole history."""
        entity, project, sweep = sweep_path.split("/")
        found = self.ask(RUNS, entity=entity, project=project, sweep=sweep)["project"]["sweep"]
        return [self._read_run(entity, project, edge["node"]) for edge in found["runs"]["edges"]]

    def sweep_state(self, sweep_path: str) -> str:
        """Return a sweep's state."""
        entity, project, sweep = sweep_path.split("/")
        found = self.ask(RUNS, entity=entity, project=project, sweep=sweep)["project"]["sweep"]
        return str(found["state"])

    def _read_run(self, entity: str, project: str, node: dict[str, Any]) -> RunRecord:
        lines: list[str] = []
        while len(lines) < node["historyLineCount"]:
            start = max((json.loads(line)["_step"] + 1 for line in lines), default=0)
            page = self.ask(
                HISTORY,
                entity=entity,
                project=project,
                run=node["name"],
                minStep=start,
                maxStep=start + PAGE_STEPS,
                samples=10 * PAGE_STEPS,
            )["project"]["run"]["history"]
            if not page:
                break
            lines += page
        config = json.loads(node["config"] or "{}")
        rows = tuple(json.loads(line) for line in lines)
        return RunRecord(
            name=node["name"],
            state=node["state"],
            exit_code=node["exitcode"],
            config={name: entry["value"] for name, entry in config.items() if name != "_wandb"},
            line_count=node["historyLineCount"],
            steps=tuple(row["_step"] for row in rows),
            rows=rows,
        )


def find_problems(
    runs: Sequence[RunRecord], expected: Sequence[dict[str, Any]], steps: int
) -> list[str]:
    """Return everything that is not as promised; nothing means that the promise was kept.

    Each of the `expected` configurations has one finished run, and that run holds the steps 0 to
    `steps` - 1 once each.
    """
    names = sorted(expected[0])
    finished = Counter(_key(run.config, names) for run in runs if run.state == "finished")
    wanted = Counter(_key(one, names) for one in expected)
    problems = [f"finished {finished[key]} times: {key}" for key in wanted if finished[key] != 1]
    problems += [f"nobody asked for {key}" for key in finished if key not in wanted]
    for run in runs:
        if run.state != "finished":
            problems.append(f"{run.name} is {run.state}, exit code {run.exit_code}")
        problems += [f"{run.name} {wrong}" for wrong in _judge_history(run, steps)]
    return problems


def read_causes(database: Path) -> set[str]:
    """Return why attempts ended, each cause once."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return {str(cause) for (cause,) in connection.execute("SELECT cause FROM attempts")}


def list_attempts(database: Path) -> list[str]:
    """Return a line for each attempt that was not the first or did not finish."""
    question = """
        SELECT r.name, a.number, agents.name, a.cause, a.exit_code
        FROM attempts a JOIN runs r ON r.id = run_id LEFT JOIN agents ON agents.id = a.agent_id
        WHERE a.number > 1 OR a.cause IS NOT 'finished' ORDER BY r.id, a.number
    """
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return [
            f"{run} attempt {number} on {agent}: {cause}, exit code {code}"
            for run, number, agent, cause, code in connection.execute(question)
        ]


def _judge_history(run: RunRecord, steps: int) -> list[str]:
    counts = Counter(run.steps)
    doubled = sorted(step for step, count in counts.items() if count > 1)
    missing = sorted(set(range(steps)) - set(counts))
    foreign = sorted(set(counts) - set(range(steps)))
    found = [f"has steps {doubled} doubled"] if doubled else []
    found += [f"lacks steps {missing}"] if missing and run.state == "finished" else []
    found += [f"has steps {foreign} that it never trained"] if foreign else []
    found += ["has its steps out of order"] if list(run.steps) != sorted(run.steps) else []
    gap = run.line_count - len(run.steps)
    return found + ([f"has {gap} empty lines in its history"] if gap else [])


def _key(config: dict[str, Any], names: Sequence[str]) -> str:
    return json.dumps({name: _plain(config.get(name)) for name in names}, sort_keys=True)


def _plain(value: Any) -> Any:
    """Return a value with whole floats as ints: on its way 1.0 may become 1."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value
