"""Our model of a W&B server's sweeps, runs and agents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import yaml

from deployer.errors import WandbError
from deployer.model import Attempt, Run, Sweep, SweepPath

LENIENT = json.JSONDecoder(strict=False)


@dataclass(frozen=True)
class Viewer:
    """The user that a key belongs to; `entity` is the default for new sweeps."""

    name: str
    entity: str


@dataclass(frozen=True)
class AgentInfo:
    """An agent as registered on the server; `state` is W&B's word, `host` its machine."""

    agent_id: str
    name: str
    host: str
    state: str
    heartbeat_at: float | None


@dataclass(frozen=True)
class LogPage:
    """Some lines of a run's console; `total` is their number, `cursor` requests the next ones."""

    run_state: str
    lines: tuple[str, ...]
    total: int
    cursor: str | None


@dataclass(frozen=True)
class Snapshot:
    """A sweep with all its runs and agents, read together."""

    sweep: Sweep
    runs: tuple[Run, ...]
    agents: tuple[AgentInfo, ...]


def parse_sweep_path(text: str) -> SweepPath:
    """Split `entity/project/sweep_id`; raises WandbError for anything else."""
    parts = text.strip("/").split("/")
    if len(parts) != 3 or not all(parts):
        raise WandbError(f"'{text}' is not a sweep path", "it looks like ENTITY/PROJECT/SWEEP_ID")
    return SweepPath(*parts)


def parse_sweep(node: dict[str, Any], path: SweepPath) -> Sweep:
    """Parse a GraphQL Sweep; its config is arbitrary YAML text."""
    config = parse_sweep_config(node.get("config"))
    return Sweep(
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


def parse_run(node: dict[str, Any]) -> Run:
    """Parse a GraphQL Run; W&B calls the run id `name` and the title `displayName`."""
    config = parse_json(node.get("config"))
    return Run(
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


def parse_runs(text: str) -> list[Run]:
    return [parse_run(node) for node in json.loads(text)]


def parse_attempt(node: dict[str, Any]) -> Attempt:
    return Attempt(
        number=int(node.get("number") or 0),
        agent=str(node.get("agentName") or ""),
        assigned_at=parse_time(node.get("assignedAt")),
        ended_at=parse_time(node.get("endedAt")),
        cause=node.get("cause"),
        exit_code=node.get("exitcode"),
    )


def parse_agent(node: dict[str, Any]) -> AgentInfo:
    return AgentInfo(
        agent_id=str(node.get("id", "")),
        name=str(node.get("name") or ""),
        host=str(node.get("host") or ""),
        state=str(node.get("state") or "").upper(),
        heartbeat_at=parse_time(node.get("heartbeatAt")),
    )


def parse_sweep_config(text: Any) -> dict[str, Any]:
    """Return a sweep's config; empty if unreadable, since users can store anything."""
    try:
        config = yaml.safe_load(text) if isinstance(text, str) else text
    except yaml.YAMLError:
        return {}
    return config if isinstance(config, dict) else {}


def parse_json(text: Any) -> dict[str, Any]:
    """Parse a JSON object leniently: bare NaN and Infinity are common in summaries."""
    try:
        value = LENIENT.decode(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def parse_run_config(text: Any) -> dict[str, Any]:
    """Unwrap `{"k": {"value": v}}` and omit W&B's own entry."""
    wrapped = parse_json(text)
    return {
        key: entry["value"] if isinstance(entry, dict) and "value" in entry else entry
        for key, entry in wrapped.items()
        if key not in ("_wandb", "wandb_version")
    }


def parse_environment(config: Any) -> dict[str, Any]:
    """Return the SDK's facts about machine and code from a run's stored configuration."""
    own = parse_json(config).get("_wandb")
    value = own.get("value") if isinstance(own, Mapping) else None
    writers = value.get("e") if isinstance(value, Mapping) else None
    found = list(writers.values()) if isinstance(writers, Mapping) else []
    return dict(found[-1]) if found and isinstance(found[-1], Mapping) else {}


def parse_time(text: Any) -> float | None:
    """Return seconds since the epoch, from a number or a text; without a zone it is UTC."""
    if isinstance(text, float):
        return text
    if not isinstance(text, str) or not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
