"""The status of an active sweep with its agents: a line for pipes, a live view, plain data."""

from __future__ import annotations

import math
import platform
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deployer.cli.output.render import Styled, Table, emit, say, without_empty_columns
from deployer.errors import Finding
from deployer.launch.scaling import Ended
from deployer.model import Agent
from deployer.sweeps.results import Coverage, Row
from deployer.sweeps.run_rows import describe_configuration
from deployer.text import format_count, format_seconds, format_value
from deployer.watch.status import Status

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text


NOT_SHOWN = ("environment", "stop_seconds", "lost_pods")
COLUMNS = (
    *("AGENT", "STATE", "RUN", "NODE", "GPU", "RESTARTS"),
    *("AGE", "EXIT", "START", "SWEEP", "OWNER", "REASON"),
)

STATE_ORDER = ("running", "pending", "preempting", "preempted", "failed", "crashed", "killed")
STYLES = {
    "finished": "green",
    "running": "cyan",
    "starting": "yellow",
    "starting its run": "yellow",
    "ending": "yellow",
    "failed": "red",
    "lost": "red",
    "ended": "dim",
}
BAR = "\N{BOX DRAWINGS HEAVY HORIZONTAL}"
BAR_WIDTH = 40  # characters
# "1 Insufficient cpu", "0/3 nodes are available"; does not match an exit code.
COUNT = re.compile(r"\b\d+(/\d+)? (?=\w)")
LINES_BESIDE_AGENTS = 6  # head, bar, counts, best, the table's head, the number of hidden agents


def show_agents(agents: Sequence[Agent], output: str, now: float) -> None:
    shared = any(agent.foreign for agent in agents)
    rows = [
        (
            agent.name,
            agent.state,
            agent.run_id,
            name_node(agent.node),
            agent.gpu,
            agent.restarts or None,
            format_seconds((agent.ended_at or now) - agent.started_at),
            agent.exit_code,
            "" if agent.run_start == "warm" else agent.run_start,
            agent.sweep_path,
            agent.owner if shared else "",
            agent.reason,
        )
        for agent in agents
    ]
    table = Table(*without_empty_columns(COLUMNS, rows), empty="no agents")
    emit([agent_to_plain(agent) for agent in agents], output, table)


def name_node(node: str) -> str:
    """Return a node's name; empty for this machine, which the user knows."""
    return node if node != platform.node() else ""


def describe_agents(agents: Sequence[Agent]) -> str:
    """Return the number of agents per state, and why some have not started."""
    waiting = [agent for agent in agents if agent.state == "starting"]
    begun = [agent for agent in agents if agent.state != "starting"]
    counts = Counter(agent.state for agent in begun + waiting)
    said = ", ".join(f"{count} {state}" for state, count in counts.items()) or "none"
    why = next((f": {agent.reason}" for agent in waiting if agent.reason), "")
    may_come = any(not agent.pending or agent.pending.transient is not False for agent in waiting)
    later = "; they start when they can, even without a watcher" if may_come else ""
    return f"{said}{why}{later}"


def show_ended(whose: str, ended: Ended, output: str, nothing: str) -> None:
    """Report the ended agents, or `nothing`: on stderr; with JSON on stdout."""
    if ended.names:
        say(f"{whose}: {format_count(len(ended.names), 'agent')} ended")
    elif ended:
        say(f"{whose}: no agents were running; deleted the logs and records of ended ones")
    else:
        say(nothing)
    emit({"sweep": whose, "ended": ended.names}, output)


def agent_to_plain(agent: Agent) -> dict[str, Any]:
    """Return an agent with stable keys, without its environment, which may contain secrets."""
    plain = {key: value for key, value in vars(agent).items() if key not in NOT_SHOWN}
    return {**plain, "pending": _pending_to_plain(agent.pending) if agent.pending else None}


def _pending_to_plain(why: Finding) -> dict[str, Any]:
    passes = {True: "with-time", False: "never", None: "unknown"}[why.transient]
    return {"cause": why.code, "sentence": why.message, "passes": passes, "remedy": why.fix}


def build_status_line(status: Status, now: float, usd_per_hour: float | None = None) -> str:
    """Return a status as one line, for pipes and `--plain`; with a price, the remaining cost."""
    times = _list_times(status, now, usd_per_hour)
    return ", ".join([*_list_progress(status), *times, *_list_obstacles(status)])


def list_facts(status: Status) -> list[str]:
    """Return the parts of that line that do not change with time alone."""
    return [*_list_progress(status), *_list_obstacles(status)]


def _list_progress(status: Status) -> list[str]:
    parts = [_count_finished(status), *_list_counts(status), _agents_phrase(status)]
    if status.best is not None:
        parts.append(f"{_best_word(status)} {_metric_phrase(status, status.best)}")
    return parts


def build_live_view(
    status: Status,
    now: float,
    usd_per_hour: float | None = None,
    size: tuple[int, int] = (10_000, 50),
    name: str = "",
) -> RenderableType:
    """Return the view of a status: progress, the best run so far, a line for each agent.

    Shows as many agents as fit on a terminal of this `size` (columns, lines), those with a run
    first. `name` is shown for a sweep without a title.
    """
    from rich.console import Group
    from rich.text import Text

    untitled = status.title in ("", status.sweep_path.rpartition("/")[2])
    title = (name if untitled else status.title) or status.sweep_path
    head = Text.assemble((title, "bold"), "  ", (status.sweep_path, "dim"))
    bar = build_bar(status.results.coverage)
    times, obstacles = _list_times(status, now, usd_per_hour), _list_obstacles(status)
    far = [_count_finished(status), *times, *obstacles]
    progress = Text.assemble(bar, "  " if bar else "", ", ".join(far))
    at_work = Text(", ".join([*_list_counts(status), _agents_phrase(status)]))
    parts: list[RenderableType] = [head, progress, at_work]
    if leader := _find_leader(status):
        parts.append(_build_best(status, leader))
    most = max(3, size[1] - LINES_BESIDE_AGENTS)
    agents = sorted(status.agents, key=lambda agent: agent.run_id is None)[:most]
    if agents:
        lines = _build_agents(status, agents).lay_out(size[0])
        parts += [Text.assemble(*line, no_wrap=True) for line in lines]
    if (hidden := len(status.agents) - len(agents)) > 0:
        parts.append(Text(f"and {format_count(hidden, 'agent')} more", style="dim"))
    return Group(*parts)


def _build_agents(status: Status, agents: Sequence[Agent]) -> Table:
    metric = status.metric or "METRIC"
    columns, rows = without_empty_columns(
        ("AGENT", "STATE", "RUN", metric, "NODE", "GPU", "RESTARTS", ""),
        [
            _build_cells(agent, status.find_row(agent), _word_state(status, agent))
            for agent in agents
        ],
    )
    return Table(columns, rows)


def _word_state(status: Status, agent: Agent) -> str:
    """Return an agent's state; a running one may have no run yet, or no longer."""
    row = status.find_row(agent)
    if agent.state != "running" or (row and row.state != "pending"):
        return str(agent.state)
    coverage = status.results.coverage
    begins = agent.run_id or coverage.waiting or coverage.expected is None
    return "starting its run" if begins else "waiting"


def _build_cells(agent: Agent, row: Row | None, state: str) -> tuple[object, ...]:
    title = row.title if row and row.title != row.run_id else None
    code = f"exit {agent.exit_code}" if agent.exit_code else ""
    return (
        agent.name,
        Styled(state, STYLES.get(state, "")),
        " ".join(filter(None, (agent.run_id, title))),
        row.value if row else None,
        name_node(agent.node),
        agent.gpu,
        agent.restarts or None,
        " ".join(filter(None, (code, agent.reason))),
    )


def build_bar(coverage: Coverage) -> Text | str:
    """Return a bar of finished, running, failed and lost ones; empty for an endless sweep."""
    from rich.text import Text

    if not coverage.expected:
        return ""
    bar = Text()
    end, done = 0, 0
    for count, style in (
        (coverage.finished, "green"),
        (coverage.failed + coverage.lost, "red"),
        (coverage.running, "cyan"),
        (coverage.expected, "bright_black"),
    ):
        done = min(coverage.expected, done + count)
        width = round(BAR_WIDTH * done / coverage.expected)
        bar.append(BAR * (width - end), style=style)
        end = width
    return bar


def _find_leader(status: Status) -> Row | None:
    """Return the best run so far: finished, or still running with a better value."""
    found, sign = status.best, 1 if status.results.goal == "maximize" else -1
    for row in status.results.rows:
        if row.state != "running" or row.value is None or not math.isfinite(row.value):
            continue
        if found is None or sign * row.value > sign * (found.value or 0.0):
            found = row
    return found


def _build_best(status: Status, best: Row) -> Text:
    from rich.text import Text

    line = Text(f"{_best_word(status)} ", no_wrap=True, overflow="ellipsis")
    line.append(_metric_phrase(status, best), "bold green")
    if best.state == "running":
        line.append(" so far", "cyan")
    return line.append(f"  {describe_configuration(best, status.results.rows)}", "dim")


def _count_finished(status: Status) -> str:
    coverage, reused = status.results.coverage, status.reused
    total = f"/{coverage.expected + reused}" if coverage.expected is not None else ""
    of_others = f" ({reused} reused)" if reused else ""
    return f"{coverage.finished + reused}{total} finished{of_others}"


def _best_word(status: Status) -> str:
    return "best new" if status.reused else "best"


def _list_counts(status: Status) -> list[str]:
    words = {row.state: row.word for row in status.results.rows}
    counts = status.counts
    return [f"{counts[s]} {words.get(s) or s}" for s in STATE_ORDER if counts.get(s)]


def _list_times(status: Status, now: float, usd_per_hour: float | None) -> list[str]:
    """Return the remaining time, and its cost."""
    parts = []
    if status.ends_at is not None and not status.over and not status.trouble:
        left = max(0.0, status.ends_at - now)
        parts.append(f"about {format_seconds(left)} left")
        if usd_per_hour is not None:
            parts[-1] += f" for about ${usd_per_hour * left / 3600:.2f}"
    if status.deadline is not None and not status.over:
        parts.append(f"agents end in {format_seconds(max(0.0, status.deadline - now))}")
    return parts


def _list_obstacles(status: Status) -> list[str]:
    parts = []
    if status.sweep_state not in ("RUNNING", "PENDING"):
        parts.append(f"sweep {status.sweep_state.lower()}")
    if status.trouble:
        parts.append(f"waiting for the server ({status.trouble})")
    return parts


def _agents_phrase(status: Status) -> str:
    count = status.living_agents
    words = format_count(count, "agent")
    return f"{words} and {status.other_agents} elsewhere" if status.other_agents else words


def _metric_phrase(status: Status, row: Row) -> str:
    return f"{status.metric}={format_value(row.value)} ({row.run_id})"


def build_reason_lines(status: Status) -> dict[str, str]:
    """Return why agents have not started or do not answer: one line per cause, by the cause.

    A cause keeps its key if it affects other agents, or if numbers in it differ.
    """
    names: dict[str, list[Agent]] = {}
    for agent in status.agents:
        if agent.reason and agent.state != "ended":
            names.setdefault(_build_cause(agent), []).append(agent)
    return {
        cause: f"{first.name}{f' and {len(rest)} more' if rest else ''} {first.state}: "
        f"{first.reason}"
        for cause, (first, *rest) in names.items()
    }


def _build_cause(agent: Agent) -> str:
    """Return an agent's reason without its name and numbers."""
    return f"{agent.state}: {COUNT.sub('', agent.reason.replace(agent.name, ''))}"
