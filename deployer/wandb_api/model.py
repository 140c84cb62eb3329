"""What a W&B server knows about sweeps, runs and agents, in our words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from deployer.errors import WandbError

GPU_MEMORY = re.compile(r"system\.gpu\.(\d+)\.memoryAllocatedBytes")
LENIENT = json.JSONDecoder(strict=False)
ENDED_SWEEP_STATES = ("FINISHED", "CANCELED")


class SweepPath(NamedTuple):
    """`entity/project/sweep_id`."""

    entity: str
    project: str
    sweep_id: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True)
class Viewer:
    """The user that a key belongs to; `entity` is where new sweeps go by default."""

    name: str
    entity: str


@dataclass(frozen=True)
class SweepInfo:
    """A sweep as its server has it; `state` is W&B's upper-case word, `config` the parsed file.

    `stop_reason` says why the embedded backend stopped it.
    """

    path: SweepPath
    node_id: str
    title: str
    state: str
    config: dict[str, Any]
    run_count: int
    expected: int | None
    created_at: float | None
    description: str = ""
    stop_reason: str = ""

    @property
    def ended(self) -> bool:
        """Tell whether the server hands out no more runs of this sweep, ever."""
        return self.state in ENDED_SWEEP_STATES

    @property
    def method(self) -> str:
        """Return grid, random, bayes or custom."""
        return str(self.config.get("method", ""))

    @property
    def metric_name(self) -> str | None:
        """Return the metric that ranks the runs, if the sweep has one."""
        name = self._metric.get("name")
        return str(name) if name else None

    @property
    def metric_goal(self) -> str:
        """Return minimize (W&B's default) or maximize."""
        return "maximize" if self._metric.get("goal") == "maximize" else "minimize"

    @property
    def metric_target(self) -> float | None:
        """Return the value at which the sweep ends early, if it has one."""
        target = self._metric.get("target")
        return float(target) if isinstance(target, int | float) else None

    @property
    def _metric(self) -> dict[str, Any]:
        metric = self.config.get("metric")
        return metric if isinstance(metric, dict) else {}


@dataclass(frozen=True)
class Attempt:
    """One time that a run was handed out; times are epoch seconds.

    `cause` says how it ended: finished, delivered (all rows are there, but its process was then
    killed, or nobody saw it end), stopped, interrupted, own failure, signal, OOM, node or lost
    reply; before `wandb.init` also usage error (its command line), no run (exit code 0), missing
    program, offline, other project, authentication error, no server or never started. None while it
    lasts.
    """

    number: int
    agent: str
    assigned_at: float | None
    ended_at: float | None
    cause: str | None
    exit_code: int | None


@dataclass(frozen=True)
class RunInfo:
    """A run; `summary` has the last value of all that was logged, times are epoch seconds.

    `attempts` are empty where the server does not keep them. `heals` is the run of another sweep
    in whose place this one runs. `environment` is what the SDK wrote of machine and code. `reused`
    is the sweep that ran it, where it counts for another one, too. `apart` are the runs that hold
    what other processes have logged under its id.
    """

    run_id: str
    title: str
    state: str
    config: dict[str, Any]
    summary: dict[str, Any]
    exit_code: int | None
    created_at: float | None
    heartbeat_at: float | None
    node_id: str = ""
    attempts: tuple[Attempt, ...] = ()
    heals: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)
    reused: str = ""
    apart: tuple[str, ...] = ()


@dataclass(frozen=True)
class AgentInfo:
    """An agent as the server saw it register; `state` is W&B's word, `host` its machine."""

    agent_id: str
    name: str
    host: str
    state: str
    heartbeat_at: float | None


@dataclass(frozen=True)
class LogPage:
    """Some lines of a run's console; `total` is how many there are, `cursor` asks for the next."""

    run_state: str
    lines: tuple[str, ...]
    total: int
    cursor: str | None


@dataclass(frozen=True)
class Snapshot:
    """A sweep with all its runs and agents, read together."""

    sweep: SweepInfo
    runs: tuple[RunInfo, ...]
    agents: tuple[AgentInfo, ...]


def parse_sweep_path(text: str) -> SweepPath:
    """Split `entity/project/sweep_id`; raises WandbError for anything else."""
    parts = text.strip("/").split("/")
    if len(parts) != 3 or not all(parts):
        raise WandbError(f"'{text}' is not a sweep path", "it looks like ENTITY/PROJECT/SWEEP_ID")
    return SweepPath(*parts)


def build_sweep_url(base_url: str, path: SweepPath) -> str:
    """Return the address of the sweep's web page."""
    parts = urlsplit(base_url)
    host = "wandb.ai" if parts.netloc == "api.wandb.ai" else parts.netloc
    return f"{parts.scheme}://{host}/{path.entity}/{path.project}/sweeps/{path.sweep_id}"


def parse_sweep(node: dict[str, Any], path: SweepPath) -> SweepInfo:
    """Read a GraphQL Sweep; its config is YAML text that may be anything."""
    config = parse_sweep_config(node.get("config"))
    return SweepInfo(
        path=path,
        node_id=str(node.get("id", "")),
        title=str(node.get("displayName") or node.get("name") or ""),
        state=str(node.get("state") or "").upper(),
        config=config,
        run_count=int(node.get("runCount") or 0),
        expected=node.get("runCountExpected"),
        created_at=parse_time(node.get("createdAt")),
        description=str(node.get("description") or config.get("description") or ""),
        stop_reason=str(node.get("deployerStopReason") or ""),
    )


def parse_run(node: dict[str, Any]) -> RunInfo:
    """Read a GraphQL Run; W&B calls the run id `name` and the title `displayName`."""
    config = parse_json(node.get("config"))
    return RunInfo(
        run_id=str(node.get("name", "")),
        title=str(node.get("displayName") or ""),
        state=str(node.get("state") or "").lower(),
        config=parse_run_config(config),
        summary=parse_json(node.get("summaryMetrics")),
        exit_code=node.get("exitcode"),
        created_at=parse_time(node.get("createdAt")),
        heartbeat_at=parse_time(node.get("heartbeatAt")),
        node_id=str(node.get("id", "")),
        attempts=tuple(parse_attempt(a) for a in node.get("deployerAttempts") or ()),
        environment=parse_environment(config),
        apart=tuple(node.get("deployerApart") or ()),
    )


def parse_runs(text: str) -> list[RunInfo]:
    """Read a JSON array of Runs."""
    return [parse_run(node) for node in json.loads(text)]


def parse_attempt(node: dict[str, Any]) -> Attempt:
    """Read one attempt of a run."""
    return Attempt(
        number=int(node.get("number") or 0),
        agent=str(node.get("agentName") or ""),
        assigned_at=parse_time(node.get("assignedAt")),
        ended_at=parse_time(node.get("endedAt")),
        cause=node.get("cause"),
        exit_code=node.get("exitcode"),
    )


def parse_agent(node: dict[str, Any]) -> AgentInfo:
    """Read a GraphQL Agent."""
    return AgentInfo(
        agent_id=str(node.get("id", "")),
        name=str(node.get("name") or ""),
        host=str(node.get("host") or ""),
        state=str(node.get("state") or "").upper(),
        heartbeat_at=parse_time(node.get("heartbeatAt")),
    )


def parse_sweep_config(text: Any) -> dict[str, Any]:
    """Return a sweep's config; an unreadable one is empty, since users can store anything."""
    try:
        config = yaml.safe_load(text) if isinstance(text, str) else text
    except yaml.YAMLError:
        return {}
    return config if isinstance(config, dict) else {}


def parse_json(text: Any) -> dict[str, Any]:
    """Parse a JSON object leniently: bare NaN and Infinity are ordinary in summaries."""
    try:
        value = LENIENT.decode(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def parse_memory(metrics: dict[str, Any]) -> dict[str, int]:
    """Return the bytes that a run's process takes, and what is taken of each of its GPUs."""
    found: dict[str, int] = {}
    for key, value in sorted(metrics.items()):
        if not isinstance(value, int | float):
            continue
        if key == "system.proc.memory.rssMB":
            found["memory"] = int(value * 2**20)
        elif match := GPU_MEMORY.fullmatch(key):
            found[f"GPU {match[1]}"] = int(value)
    return found


def parse_run_config(text: Any) -> dict[str, Any]:
    """Unwrap `{"k": {"value": v}}` and leave out W&B's own entry."""
    wrapped = parse_json(text)
    return {
        key: entry["value"] if isinstance(entry, dict) and "value" in entry else entry
        for key, entry in wrapped.items()
        if key not in ("_wandb", "wandb_version")
    }


def parse_environment(config: Any) -> dict[str, Any]:
    """Return what the SDK wrote of machine and code into a run's stored configuration."""
    own = parse_json(config).get("_wandb")
    value = own.get("value") if isinstance(own, Mapping) else None
    writers = value.get("e") if isinstance(value, Mapping) else None
    found = list(writers.values()) if isinstance(writers, Mapping) else []
    return dict(found[-1]) if found and isinstance(found[-1], Mapping) else {}


def parse_time(text: Any) -> float | None:
    """Return seconds since the epoch, as they are or of a text without a zone: W&B means UTC."""
    if isinstance(text, float):
        return text
    if not isinstance(text, str) or not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
