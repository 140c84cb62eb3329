"""The results of a sweep: metric, ranking, coverage, failures, ends of attempts; pure.

Finished counts configurations: for a grid each once, for random and bayes each run, since those
methods may draw a configuration twice. An early-stopped run counts as finished.
"""

from __future__ import annotations

import math
import re
import signal
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from deployer.model import Attempt, Run, Sweep
from deployer.sweeps.configuration_list import (
    configuration_key,
    describe_run,
    find_list_parameter,
    flatten_configuration,
    list_parameters,
)
from deployer.text import LONGEST_SECONDS, format_count

WORDS = {
    "finished": "finished",
    "delivered": "all rows delivered",
    "stopped": "stopped",
    "interrupted": "interrupted",
    "own failure": "crashed",
    "usage error": "rejected its command line",
    "no run": "ended without wandb.init",
    "offline": "its script ran wandb offline",
    "other project": "its script sent the run to a project other than the sweep's",
    "own sweep": "its script creates its own sweep",
    "missing program": "its program was not found or cannot be executed",
    "authentication error": "its script had no valid API key",
    "never started": "ended before wandb.init",
    "no server": "wandb.init reached no server",
    "signal": "killed",
    "OOM": "killed because memory ran out",
    "node": "lost with its agent or its machine",
    "lost reply": "sent again, because its agent had not received it",
}
# Failures that would repeat, so that the server does not retry them, and their fixes.
FIXES = {
    "usage error": "let the script accept the flags that the sweep file sends",
    "no run": "the script exited with 0 without wandb.init: call it in each run, or let deployer "
    "read the output with `metrics: {from: stdout}` in deployer.yaml",
    "offline": 'let the script run wandb online: remove WANDB_MODE and mode="offline"',
    "other project": "remove WANDB_PROJECT, WANDB_ENTITY and id= from the script's wandb settings",
    "own sweep": 'eval "$(deployer backend env)", then start the script: it has its own agents',
    "missing program": "correct program: or command: in the sweep file, or install the program",
    "authentication error": "remove the API key from the script: its agent has one",
}
# Failures with a fix by the user; the server does retry the last one.
REMEDIES = {
    **FIXES,
    "OOM": "give each agent more memory: kubernetes: {memory: …} in deployer.yaml; on one machine, "
    "start fewer",
}
# Attempts that failed because of the run itself; a retry after them does not count as healing.
OWN_FAILURES = ("own failure", "never started", *FIXES)
# Causes after which the exit code is the process's own; after others it is only reported.
OWN_EXIT_CODE = ("delivered", *OWN_FAILURES)
NOTED = ("delivered", "never started", "no server", "OOM", *FIXES)


# Lines that deployer's agent and wandb print around a run's output, except errors of wandb.
NOISE = re.compile(
    r"[\d-]{10} [\d:]{8} - deployer - |(\x1b\[[\d;]*m)*wandb(\x1b\[[\d;]*m)*:(?!.*\bERROR\b)"
)

# The SDK's spelling of numbers that JSON lacks.
WRITTEN = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
ACTIVE_STATES = ("running", "pending", "preempting")
# Will be assigned again, on W&B's servers too.
WAITING_STATES = ("preempted",)
FAILED_STATES = ("failed",)
EARLIER = 'it was logged before wandb.init was called again; resume="allow" continues the run'


@lru_cache(maxsize=256)
def describe_attempt(cause: str, exit_code: int | None) -> str:
    """Describe how an attempt ended, with its exit code or the signal that killed it."""
    said = WORDS.get(cause, cause)
    if cause == "own failure" and exit_code == 0:
        said = "exited during its run"
    if cause == "delivered" and exit_code is None:
        return f"{said}, exit unknown"
    code = f"exit code {exit_code}" if cause in OWN_EXIT_CODE and exit_code is not None else ""
    how = name_signal(exit_code) or code
    between = ", then " if cause == "delivered" else ": "
    return f"{said}{between}{how}" if how else said


def keep_own_lines(lines: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return the last lines printed by the run itself; any last lines if there are none."""
    own = [line for line in lines if not NOISE.match(line)]
    return tuple((own if any(line.strip() for line in own) else lines)[-limit:])


def find_last_words(lines: Sequence[str]) -> str:
    """Return the last line printed by the run itself; empty if there is none."""
    own = (line.strip() for line in reversed(lines) if not NOISE.match(line))
    return next(filter(None, own), "")


def describe_ending(state: str, attempts: Sequence[Attempt], sweep_ended: bool) -> str:
    """Add to a run's state what it waits for and why, or how it ended; empty if nothing."""
    last = attempts[-1] if attempts else None
    if last is None or last.cause is None:
        return ""
    said = describe_attempt(last.cause, last.exit_code)
    if state == "preempted":
        waits = "was not retried" if sweep_ended else "waits for its next attempt"
        return f"{waits} ({said})"
    if last.cause == "signal" and state == "failed":
        again = sum(attempt.cause == "signal" for attempt in attempts) > 1
        return f"{said}, repeatedly without progress" if again else said
    return said if last.cause in NOTED else ""


def name_signal(exit_code: int | None) -> str:
    try:
        return signal.Signals((exit_code or 0) - 128).name
    except ValueError:
        return ""


def metric_value(summary: Mapping[str, Any], name: str, goal: str = "minimize") -> float | None:
    """Return a metric from a summary, None if it is missing; it may be nan or infinite.

    Dots in `name` lead into nested values (`val.loss`). With `define_metric(summary=…)` the value
    is a mapping such as {"min": v}: use the aggregate that fits `goal`, else best, else last.
    """
    return _as_number(find_value(summary, name), goal)


def rank_key(value: float | None, goal: str = "minimize") -> tuple[int, float]:
    """Return a sort key: the best value first, values that are not finite last."""
    if value is None or not math.isfinite(value):
        return (1, 0.0)
    return (0, -value if goal == "maximize" else value)


def list_logged(summary: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names in a summary that could be a metric: numbers logged by the script."""
    names = (str(name) for name in summary if not str(name).startswith("_"))
    return tuple(name for name in names if metric_value(summary, name) is not None)


def find_value(summary: Any, name: str) -> Any:
    """Return the value logged under a name, where dots lead into nested values; else None."""
    if not isinstance(summary, Mapping):
        return None
    if name in summary:
        return summary[name]
    for cut in (i for i, letter in enumerate(name) if letter == "."):
        found = find_value(summary.get(name[:cut]), name[cut + 1 :])
        if found is not None:
            return found
    return None


def _as_number(value: Any, goal: str) -> float | None:
    if isinstance(value, Mapping):
        fitting = "max" if goal == "maximize" else "min"
        order = [fitting, "best", "last", "mean", *value]
        return next((_as_number(value[k], goal) for k in order if k in value), None)
    if isinstance(value, str):
        return WRITTEN.get(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer too large for a float
        return math.inf if value > 0 else -math.inf


def metric_name(config: Mapping[str, Any]) -> str | None:
    metric = config.get("metric")
    name = metric.get("name") if isinstance(metric, Mapping) else None
    return str(name) if name else None


def metric_goal(config: Mapping[str, Any]) -> str:
    """Return `maximize`, or `minimize` for any other value, as W&B does."""
    metric = config.get("metric")
    goal = metric.get("goal") if isinstance(metric, Mapping) else None
    return "maximize" if goal == "maximize" else "minimize"


@dataclass(frozen=True)
class Row:
    """One run in the ranking; `parameters` holds the sweep's own, flattened by dots.

    `duration_seconds` is rounded to tenths. `attempts` are empty if the server does not keep them.
    `heals` is the run that this one replaces, `reused` the sweep that ran it for this one. `note`
    adds to `state`. `summary` holds the last logged values, without the SDK's own. `copy_of` is the
    run of the same configuration with the same curve of the metric. `word` is the displayed state.
    """

    rank: int | None
    run_id: str
    title: str
    state: str
    value: float | None
    parameters: dict[str, Any]
    duration_seconds: float | None
    exit_code: int | None
    started_at: float | None = None
    attempts: tuple[Attempt, ...] = ()
    heals: str = ""
    note: str = ""
    reused: str = ""
    summary: Mapping[str, Any] = field(default_factory=dict)
    apart: tuple[str, ...] = ()
    copy_of: str = ""
    word: str = ""


@dataclass(frozen=True)
class Coverage:
    """The counts of the expected configurations; `expected` is None for an endless sweep.

    `waiting` ones are not assigned yet, or will be again. `lost` ones were assigned and vanished,
    or were never assigned although the sweep has ended. They count as `cancelled` if the sweep was
    cancelled; unassigned ones also if failures stopped it. `healed` ones are finished after a lost
    attempt that did not fail by itself. `stopped_early` ones count as finished, and so do `reused`
    ones, which another sweep finished. For random and bayes, which count runs, `repeated` ones have
    the configuration of another run.
    """

    expected: int | None
    finished: int
    duplicates: int
    failed: int
    running: int
    waiting: int
    lost: int
    healed: int = 0
    stopped_early: int = 0
    cancelled: int = 0
    reused: int = 0
    repeated: int = 0

    @property
    def complete(self) -> bool:
        rest = self.failed + self.running + self.waiting + self.lost + self.cancelled
        return rest == 0 and self.finished >= (self.expected or 1)

    def sentence(self) -> str:
        """The counts as one sentence; zeros are left out, except lost and, mostly, duplicates."""
        total = f"/{self.expected}" if self.expected is not None else ""
        different = format_count(self.finished - self.repeated, "configuration")
        counted = f"runs of {different}" if self.repeated else "configurations"
        parts = [f"{self.finished}{total} {counted} finished"]
        parts += [f"{self.duplicates} duplicates"] * bool(self.duplicates or not self.repeated)
        parts += [f"{self.lost} lost"]
        others = (
            ("reused", self.reused),
            ("healed", self.healed),
            ("stopped early", self.stopped_early),
            ("failed", self.failed),
            ("running", self.running),
            ("queued", self.waiting),
            ("cancelled", self.cancelled),
        )
        return ", ".join(parts + [f"{count} {word}" for word, count in others if count])


@dataclass(frozen=True)
class Results:
    """Rows are ranked, best first; `best` is the first with a finite value.

    `stop_reason` says why the server stopped the sweep, if it did. `unlogged` counts the finished
    runs without the metric, `not_finite` those with NaN or infinity. `logged` are the names that
    the first finished run logged. `dropped` is wandb's warning if it dropped rows of a run without
    the metric, or EARLIER. `equal_curves` are runs of different configurations with the same curve.
    `command` runs the best configuration again.
    """

    sweep_path: str
    state: str
    metric: str | None
    goal: str
    coverage: Coverage
    rows: tuple[Row, ...]
    best: Row | None
    failures: tuple[Row, ...]
    stop_reason: str = ""
    unlogged: int = 0
    not_finite: int = 0
    logged: tuple[str, ...] = ()
    dropped: str = ""
    equal_curves: tuple[str, ...] = ()
    command: str = ""

    @property
    def metric_missing(self) -> bool:
        """Return True if runs have finished and none has the ranking metric."""
        return self.best is None and self.unlogged + self.not_finite > 0


def build_results(sweep: Sweep, runs: Sequence[Run], expected: int | None = None) -> Results:
    """Rank a sweep's runs and count finished, doubled, failed and lost ones.

    `expected` is used if the server does not report the number of configurations.
    """
    names, listed = list_parameters(sweep.config), find_list_parameter(sweep.config)
    rows = rank_rows(sweep, [_build_row(sweep, run, names, listed) for run in runs])
    done = [row for row in rows if row.rank is not None]
    finished = [row for row in rows if is_done(sweep, row.state)] if sweep.metric_name else []
    first = min((run for run in runs if is_done(sweep, run.state)), key=_start_of, default=None)
    return Results(
        sweep_path=str(sweep.path),
        state=sweep.state,
        metric=sweep.metric_name,
        goal=sweep.metric_goal,
        coverage=build_coverage(sweep, rows, expected),
        rows=rows,
        best=done[0] if done else None,
        failures=tuple(row for row in rows if row.state in (*FAILED_STATES, "crashed")),
        stop_reason=sweep.stop_reason,
        unlogged=sum(row.value is None for row in finished),
        not_finite=sum(row.value is not None and row.rank is None for row in finished),
        logged=list_logged(first.summary) if first else (),
        command=_describe_best(sweep, runs, done),
    )


def _describe_best(sweep: Sweep, runs: Sequence[Run], ranked: Sequence[Row]) -> str:
    """Return the command line of the best configuration, as the user would type it."""
    best = next((run for run in runs if ranked and run.run_id == ranked[0].run_id), None)
    if best is None:
        return ""
    line = describe_run(sweep.config, best.config)
    plain = line.removeprefix("/usr/bin/env ")
    return line if "=" in plain.split(" ")[0] else plain  # env sets a variable


def _start_of(run: Run) -> float:
    return run.created_at or 0.0


def rank_rows(sweep: Sweep, rows: Sequence[Row]) -> tuple[Row, ...]:
    """Sort finished runs by the metric's goal, missing and NaN last; then the other runs."""

    goal = sweep.metric_goal

    def place(row: Row) -> tuple[bool, tuple[int, float]]:
        return not is_done(sweep, row.state), rank_key(row.value, goal)

    ordered = sorted(rows, key=place)
    return tuple(
        Row(**{**vars(row), "rank": index}) if is_ranked(sweep, row) else row
        for index, row in enumerate(ordered, start=1)
    )


def is_ranked(sweep: Sweep, row: Row) -> bool:
    usable = row.value is not None and math.isfinite(row.value)
    return usable and is_done(sweep, row.state)


def build_coverage(sweep: Sweep, rows: Sequence[Row], expected: int | None) -> Coverage:
    """Count configurations by their best outcome: finished, running, failed, lost."""
    key = _key_of(sweep)
    done = [row for row in rows if is_done(sweep, row.state)]
    finishes = Counter(key(row) for row in done)
    different = {configuration_key(row.parameters) or key(row) for row in done}
    active = {key(r) for r in rows if r.state in ACTIVE_STATES} - finishes.keys()
    returned = {key(r) for r in rows if r.state in WAITING_STATES} - finishes.keys() - active
    settled = finishes.keys() | active | (set() if sweep.ended else returned)
    failed = {key(r) for r in rows if r.state in FAILED_STATES} - settled
    vanished = {key(r) for r in rows} - settled - failed
    seen = len(settled | failed | vanished)
    reused = {key(row) for row in rows if row.reused}
    expected = sweep.expected if expected is None else expected
    expected = None if expected is None else expected + len(reused)
    if sweep.ended and _reached_target(sweep, rows):
        expected = seen
    unseen = max(0, (expected or 0) - seen)
    missing = len(vanished) + (unseen if sweep.ended else 0)
    cancelled = missing if sweep.state == "CANCELED" else unseen if sweep.stop_reason else 0
    return Coverage(
        expected=expected,
        finished=len(finishes),
        duplicates=sum(finishes.values()) - len(finishes),
        failed=len(failed),
        running=len(active),
        waiting=0 if sweep.ended else unseen + len(returned),
        lost=missing - cancelled,
        healed=_count_healed(rows, key, finishes),
        stopped_early=len({key(row) for row in rows if is_stopped_early(sweep, row.state)}),
        cancelled=cancelled,
        reused=len(reused),
        repeated=max(0, len(finishes) - len(different)),
    )


def _count_healed(
    rows: Sequence[Row], key: Callable[[Row], Hashable], finishes: Mapping[Hashable, int]
) -> int:
    """Count finished configurations with more attempts than finished or failed ones.

    If the server keeps no attempts, each failed or vanished run counts as one.
    """
    attempts: Counter[Hashable] = Counter()
    for row in rows:
        counted = sum(attempt.cause not in OWN_FAILURES for attempt in row.attempts)
        attempts[key(row)] += counted if row.attempts else row.state != "killed"
    return sum(attempts[configuration] > finishes[configuration] for configuration in finishes)


def is_healed(row: Row) -> bool:
    """Return True if a run repeats a lost attempt, rather than a failed one."""
    lost = any(attempt.cause not in OWN_FAILURES for attempt in row.attempts[:-1])
    return lost or bool(row.heals)


def is_done(sweep: Sweep, state: str) -> bool:
    """Return True if a run counts as finished; an early-stopped one does."""
    return state == "finished" or is_stopped_early(sweep, state)


def is_stopped_early(sweep: Sweep, state: str) -> bool:
    """Return True if the sweep's own rule ended the run, which W&B calls killed."""
    return state == "killed" and bool(sweep.config.get("early_terminate"))


def word_state(sweep: Sweep, state: str) -> str:
    """Return a run's state, in plain words if W&B's are unclear."""
    if is_stopped_early(sweep, state):
        return "stopped early"
    words = {} if sweep.ended else {"pending": "starting", "preempted": "queued"}
    return words.get(state, state)


def run_seconds(run: Run) -> float | None:
    """Return a run's training time: W&B's own count, else first to last sign of life."""
    inner = run.summary.get("_wandb")
    runtime = inner.get("runtime") if isinstance(inner, Mapping) else None
    for value in (run.summary.get("_runtime"), runtime):
        # Scripts may log these names too, so ignore impossible values. W&B counts whole seconds:
        # its 0 means less than one second, so it is ignored.
        if isinstance(value, int | float) and 0 < value < LONGEST_SECONDS:
            return float(value)
    if run.created_at is None or run.heartbeat_at is None:
        return None
    return max(0.0, run.heartbeat_at - run.created_at)


def _build_row(sweep: Sweep, run: Run, names: tuple[str, ...], listed: str) -> Row:
    seconds = run_seconds(run)
    return Row(
        rank=None,
        run_id=run.run_id,
        title=run.title,
        state=run.state,
        value=_value(sweep, run),
        parameters=_parameters(run, names, listed),
        duration_seconds=None if seconds is None else round(seconds, 1),
        exit_code=_exit_code(run),
        started_at=run.created_at,
        attempts=run.attempts,
        heals=run.heals,
        note=f"reused from {run.reused}"
        if run.reused
        else describe_ending(run.state, run.attempts, sweep.ended) or _describe_split(run.apart),
        reused=run.reused,
        summary={name: v for name, v in run.summary.items() if not str(name).startswith("_")},
        apart=run.apart,
        word=word_state(sweep, run.state),
    )


def _describe_split(names: Sequence[str]) -> str:
    return f"wandb.init was called again: see {', '.join(names)}" if names else ""


def _exit_code(run: Run) -> int | None:
    """Return the exit code of a run's process; if unobserved, the SDK's.

    The SDK reports 1 for any error inside `wandb.init`, and 255 for a killed process.
    """
    seen = run.attempts[-1].exit_code if run.attempts else None
    return run.exit_code if seen is None else seen


def _parameters(run: Run, names: tuple[str, ...], listed: str) -> dict[str, Any]:
    """Return a run's parameters; for an explicit list, the listed values by their own names."""
    flat = flatten_configuration(run.config, names)
    return {k.removeprefix(f"{listed}."): v for k, v in flat.items()} if listed else flat


def _value(sweep: Sweep, run: Run) -> float | None:
    name = sweep.metric_name
    return metric_value(run.summary, name, sweep.metric_goal) if name else None


def _key_of(sweep: Sweep) -> Callable[[Row], Hashable]:
    if sweep.method == "grid":
        return lambda row: configuration_key(row.parameters)
    return lambda row: row.heals or row.run_id


def _reached_target(sweep: Sweep, rows: Sequence[Row]) -> bool:
    target = sweep.metric_target
    values = [row.value for row in rows if row.value is not None]
    if target is None or not values:
        return False
    if sweep.metric_goal == "maximize":
        return max(values) >= target
    return min(values) <= target
