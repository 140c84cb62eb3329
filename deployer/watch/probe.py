"""What a sweep's first run shows while it is looked at, and what follows for the rest; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeGuard

from deployer.analysis.forecast import usual_seconds
from deployer.executors.base import Memory
from deployer.model import Run, Sweep
from deployer.sweeps.endings import FIXES
from deployer.sweeps.metrics import list_logged, metric_value
from deployer.sweeps.results import ACTIVE_STATES, Row, is_stopped_early
from deployer.watch.packing.measurement import BAD_CAUSES, BAD_STATES
from deployer.watch.packing.rates import Mark
from deployer.watch.status import Status

# A run that goes on is looked at for so long: from its first logged row, since what comes before
# may take minutes on a busy machine; or from its begin, if it logs nothing.
LOGGING_SECONDS = 60.0
SILENT_SECONDS = 180.0
# A run's length is known before its end where its configuration has one of these totals, and it
# logs how far it is under one of these names.
PROGRESS = (
    (("epochs", "num_epochs", "n_epochs", "max_epochs", "num_train_epochs"), ("epoch",)),
    (
        ("steps", "max_steps", "total_steps", "num_steps", "train_steps", "total_timesteps"),
        ("global_step", "step", "trainer/global_step"),
    ),
    (("iterations", "max_iters", "num_iterations", "max_iterations"), ("iteration", "iter")),
)
COUNTERS = ("_step", *(name for _, names in PROGRESS for name in names))
FAILURES = (*BAD_CAUSES, *FIXES)


class Verdict(StrEnum):
    """What a probe says of the rest of its sweep."""

    GOOD = "good"
    FAILED = "failed"
    UNRANKED = "no metric"  # it has finished without the metric that ranks runs
    SILENT = "nothing logged"
    NO_RUN = "no run"  # its agent has left without one
    OUT_OF_TIME = "out of time"  # `--max-time` was over before its end


@dataclass(frozen=True)
class Rest:
    """What is left after the probe: runs, the agents that shall do them, and how long that takes.

    `runs` is None for a sweep without end; so is what cannot be known.
    """

    runs: int | None
    agents: int
    seconds: float | None = None
    usd: float | None = None


@dataclass(frozen=True)
class Report:
    """What the probe's run has shown.

    `seen_seconds` is how long it took, or has gone on. `run_seconds` is how long a run takes, by
    what `progress` says if it has not finished, such as `epoch 3 of 50`. `memory` has bytes by
    name, `memory` or `GPU 0`: the most that was seen, or if `sampled`, what the run's SDK saw last.
    Nothing is known of the `rest` as long as no status was read.
    """

    sweep: str
    verdict: Verdict
    row: Row | None = None
    seen_seconds: float = 0.0
    logged: tuple[str, ...] = ()
    rows: int = 0
    rows_per_minute: float | None = None
    metric: str | None = None
    value: float | None = None
    memory: Mapping[str, int] = field(default_factory=dict)
    sampled: bool = False
    run_seconds: float | None = None
    progress: str = ""
    rest: Rest | None = None

    @property
    def nothing_left(self) -> bool:
        """Tell whether the sweep has no other run."""
        return self.rest is not None and self.rest.runs == 0

    @property
    def going(self) -> bool:
        """Tell whether the run goes on."""
        return self.row is not None and self.row.state in ACTIVE_STATES


@dataclass
class Probe:
    """One agent's only run, from the first look at it to the last.

    `agents` are the names of that agent, `known` the attempts of each run that was there before.
    """

    agents: frozenset[str]
    known: Mapping[str, int]
    logging_seconds: float = LOGGING_SECONDS
    run: Run | None = None
    status: Status | None = None
    _begun_at: float | None = None
    _logged_at: float | None = None
    _now: float = 0.0
    _first: dict[str, Mark] = field(default_factory=dict)  # where each counter was at first
    _memory: dict[str, int] = field(default_factory=dict)

    def look(self, status: Status, now: float, memory: Sequence[Memory] = ()) -> None:
        """Take in what is seen; `memory` is what the agent takes of each."""
        if status.trouble:
            return
        self.status, self._now = status, now
        self.run = self._find_run(status) or self.run
        if self.run is None:
            return
        self._begun_at = self._begun_at or now
        if list_logged(self.run.summary):
            self._logged_at = self._logged_at or now
        self._first = read_marks(self.run) | self._first
        for one in memory:
            name = one.name.removeprefix("memory of ")
            self._memory[name] = max(one.used_bytes, self._memory.get(name, 0))

    @property
    def over(self) -> bool:
        """Tell whether enough was seen."""
        if self.has_failed or (self.run and self.run.state not in (*ACTIVE_STATES, "preempted")):
            return True
        if self._logged_at is not None:
            return self._now - self._logged_at >= self.logging_seconds
        return self._begun_at is not None and self._now - self._begun_at >= SILENT_SECONDS

    @property
    def has_failed(self) -> bool:
        """Tell whether the run has ended badly, be it that it will be tried again."""
        if self.run is None:
            return False
        new = self.run.attempts[self.known.get(self.run.run_id, 0) :]
        return self.run.state in BAD_STATES or any(one.cause in FAILURES for one in new)

    def report(self, sweep: Sweep) -> Report:
        """Say what was seen, and what it means."""
        run, status = self.run, self.status
        if run is None or status is None:
            late = status is not None and status.out_of_time
            verdict = Verdict.OUT_OF_TIME if late else Verdict.NO_RUN
            return Report(str(sweep.path), verdict, metric=sweep.metric_name)
        seconds, progress = self._forecast(run, status.runs)
        name = sweep.metric_name
        return Report(
            sweep=str(sweep.path),
            verdict=self._judge(sweep, run),
            row=next((row for row in status.results.rows if row.run_id == run.run_id), None),
            seen_seconds=self._seen_seconds(run),
            logged=list_logged(run.summary),
            rows=count_rows(run),
            rows_per_minute=self._find_pace(run),
            metric=name,
            value=metric_value(run.summary, name, sweep.metric_goal) if name else None,
            memory=self._memory,
            run_seconds=seconds,
            progress=progress,
        )

    def _find_run(self, status: Status) -> Run | None:
        held = {agent.run_id for agent in status.agents if agent.name in self.agents}
        for run in status.runs:
            new = run.attempts[self.known.get(run.run_id, 0) :]
            fresh = not run.attempts and run.run_id not in self.known
            if run.run_id in held or fresh or any(one.agent in self.agents for one in new):
                return run
        return None

    def _judge(self, sweep: Sweep, run: Run) -> Verdict:
        finished = run.state == "finished" or is_stopped_early(sweep, run.state)
        ended = run.state not in ACTIVE_STATES or self._has_left()
        if self.has_failed or (ended and not finished):
            late = not self.has_failed and self.status and self.status.out_of_time
            return Verdict.OUT_OF_TIME if late else Verdict.FAILED
        if sweep.metric_name and finished:
            value = metric_value(run.summary, sweep.metric_name, sweep.metric_goal)
            return Verdict.UNRANKED if value is None else Verdict.GOOD
        return Verdict.GOOD if finished or list_logged(run.summary) else Verdict.SILENT

    def _has_left(self) -> bool:
        """Tell whether its agent is gone, whatever the server knows of that yet."""
        ours = [a for a in self.status.agents if a.name in self.agents] if self.status else []
        return all(agent.state in ("ended", "lost") for agent in ours)

    def _seen_seconds(self, run: Run) -> float:
        if run.state == "finished":
            return usual_seconds([run]) or 0.0
        begun = run.attempts[-1].assigned_at if run.attempts else run.created_at
        return max(0.0, self._now - (begun or self._begun_at or self._now))

    def _find_pace(self, run: Run) -> float | None:
        """Return the rows a minute: between looks, else over the whole of a run that has ended."""
        if speed := self._find_speed(run, "_step"):
            return 60 * speed
        seconds = run.summary.get("_runtime")
        if run.state in ACTIVE_STATES or not is_number(seconds) or not seconds:
            return None
        return 60 * count_rows(run) / float(seconds)

    def _find_speed(self, run: Run, counter: str) -> float | None:
        """Return how much a second goes by since the first look; None if nothing has."""
        first, last = self._first.get(counter), read_marks(run).get(counter)
        if first is None or last is None or last.time <= first.time or last.step <= first.step:
            return None
        return (last.step - first.step) / (last.time - first.time)

    def _forecast(self, run: Run, runs: Sequence[Run]) -> tuple[float | None, str]:
        """Return how long a run takes, and by what it is known if none has finished."""
        if (seconds := usual_seconds(runs)) is not None:
            return seconds, ""
        for totals, counters in PROGRESS:
            total = next((run.config[t] for t in totals if is_number(run.config.get(t))), None)
            for counter in counters if total else ():
                if speed := self._find_speed(run, counter):
                    done = run.summary[counter]
                    left = max(0.0, total - done) / speed
                    return self._seen_seconds(run) + left, f"{counter} {done:g} of {total:g}"
        return None, ""


def forecast_rest(report: Report, status: Status, agents: int) -> Rest:
    """Work out how long what is left takes with so many agents, after the probe's own run."""
    coverage = status.results.coverage
    if coverage.expected is None:
        return Rest(None, agents)
    left = max(0, coverage.waiting + coverage.running - report.going)
    agents = min(agents, left) or 1
    if report.run_seconds is None:
        return Rest(left, agents)
    return Rest(left, agents, -(-left // max(1, agents)) * report.run_seconds)


def count_rows(run: Run) -> int:
    """Return how many rows a run has logged, by the number of the last."""
    step = run.summary.get("_step")
    return int(step) + 1 if is_number(step) else 0


def read_marks(run: Run) -> dict[str, Mark]:
    """Return how far each counter of a run is; nothing as long as it has logged no row."""
    time, summary = run.summary.get("_timestamp"), run.summary
    if not is_number(time):
        return {}
    found = {name: summary[name] for name in COUNTERS if is_number(summary.get(name))}
    return {name: Mark(float(time), float(value)) for name, value in found.items()}


def is_number(value: Any) -> TypeGuard[int | float]:
    """Tell whether a value of a configuration or a summary counts something."""
    return isinstance(value, int | float) and not isinstance(value, bool)
