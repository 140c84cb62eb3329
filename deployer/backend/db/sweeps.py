"""Sweeps: their rows, their configuration, idempotent creation."""

from __future__ import annotations

import hashlib
import secrets
import string
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, ClassVar

import yaml

from deployer.backend.db.accounts import Caller, ProjectRow
from deployer.backend.db.rows import Connection, TableRow, change, find, insert, select, select_one
from deployer.backend.request import LARGEST_INT, MOST_LEVELS, Refusal, repair
from deployer.sweeps.parameters import expected_count
from deployer.sweeps.results import metric_goal, metric_name
from deployer.sweeps.rules import has_local_scheduler

# W&B's command line retries a creation after a lost reply, with the same text and no id.
REPEAT_WINDOW_SECONDS = 60
DEFAULT_RETRIES = 1
# Limits of a configuration: ten times a list of thousands of parameter sets.
MOST_LETTERS = 2_000_000
MOST_VALUES = 250_000
KNOWN_CONFIGS = 256
# PyYAML's exceptions for a tag that does not match its value, such as `!!int x`.
WRONG_SCALARS = (ValueError, ArithmeticError, LookupError, AttributeError, TypeError)
STATES = ("PENDING", "RUNNING", "PAUSED", "FINISHED", "CANCELED")
# Not a state of W&B's: the sweep is hidden, but agents may still be running.
DELETED = "DELETED"
ENDED = ("FINISHED", "CANCELED", DELETED)


@dataclass(frozen=True)
class SweepRow(TableRow):
    """A sweep; `expected` is the number of configurations, None for an endless one.

    Every configuration below `first_free` has a run; removing a run lowers it. `healed_retries`
    override those of the sweep file after a user healed the sweep. `stop_reason` says why the
    server stopped it early.
    """

    table: ClassVar = "sweeps"
    noun: ClassVar = "sweep"

    project_id: int
    user_id: int
    name: str
    display_name: str | None
    description: str | None
    config: str
    state: str
    seed: str
    expected: int | None
    first_free: int
    healed_retries: int | None
    stop_reason: str | None
    controller: str | None
    scheduler: str | None
    created_at: float
    updated_at: float

    @property
    def settings(self) -> dict[str, Any]:
        """Return the configuration as a mapping, shared between callers; never modify it."""
        return parse_config(self.config)

    @property
    def title(self) -> str | None:
        """Return the display name: the one set last, else the sweep file's."""
        name = self.settings.get("name")
        return self.display_name or (None if name is None else str(name))

    @property
    def method(self) -> str:
        return str(self.settings.get("method"))

    @property
    def metric_name(self) -> str | None:
        return metric_name(self.settings)

    @property
    def metric_goal(self) -> str:
        return metric_goal(self.settings)

    @property
    def retries(self) -> int:
        """Return how often a run that fails on its own is retried."""
        if self.healed_retries is not None:
            return self.healed_retries
        retries = self.settings.get("retries", DEFAULT_RETRIES)
        return retries if type(retries) is int else DEFAULT_RETRIES

    @property
    def local_scheduler(self) -> bool:
        """Return True if the user's own scheduler enqueues the runs instead of the server."""
        return has_local_scheduler(self.settings)

    @property
    def controller_run_name(self) -> str:
        return f"{self.name}-scheduler"

    @property
    def ended(self) -> bool:
        return self.state in ENDED


@lru_cache(maxsize=KNOWN_CONFIGS)
def parse_config(text: str) -> dict[str, Any]:
    """Parse a sweep's YAML to a mapping; refuse with 400 anything else."""
    if len(text) > MOST_LETTERS:
        raise Refusal(400, f"the sweep's configuration is longer than {MOST_LETTERS} characters")
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        size, levels = _measure(node, {}) if node else (0, 0)
        if size <= MOST_VALUES and levels <= MOST_LEVELS:
            config = repair(loader.construct_document(node)) if node else None
    except RecursionError:
        levels = MOST_LEVELS + 1
    except (yaml.YAMLError, *WRONG_SCALARS) as error:
        raise Refusal(400, f"the sweep's configuration is not YAML: {error}") from error
    if levels > MOST_LEVELS:
        raise Refusal(
            400, f"the sweep's configuration is nested more than {MOST_LEVELS} levels deep"
        )
    if size > MOST_VALUES:
        raise Refusal(400, f"the sweep's configuration has more than {MOST_VALUES} values")
    if not isinstance(config, dict):
        raise Refusal(400, "the sweep's configuration is not a mapping")
    return config


def _measure(node: yaml.Node, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return a node's number of values, with aliases expanded, and its nesting depth."""
    if id(node) not in known:
        known[id(node)] = (0, MOST_LEVELS + 1)  # in case it contains itself
        inside = node.value if isinstance(node, yaml.CollectionNode) else ()
        if isinstance(node, yaml.MappingNode):
            inside = chain.from_iterable(node.value)
        sizes = [_measure(inner, known) for inner in inside]
        levels = 1 + max((level for _, level in sizes), default=0)
        known[id(node)] = (1 + sum(size for size, _ in sizes), levels)
    return known[id(node)]


def _expected(settings: dict[str, Any]) -> int | None:
    """Return how many configurations the server assigns; None if a local scheduler decides."""
    count = None if has_local_scheduler(settings) else expected_count(settings)
    return None if count is None else min(count, LARGEST_INT)


def create_sweep(
    db: Connection,
    caller: Caller,
    project: ProjectRow,
    config: str,
    now: float,
    *,
    mutation_id: str | None = None,
    **columns: str | None,
) -> SweepRow:
    """Create a sweep, or return the one that the same request created before.

    Requests with the same `mutation_id` are the same. Without an id, so are requests with the same
    text within a minute, as long as no agent has joined.
    """
    request = f"{project.id}:{mutation_id or config}"
    request_key = hashlib.sha256(request.encode()).hexdigest()
    earlier = _repeated(db, request_key, exact=mutation_id is not None, now=now)
    if earlier:
        return earlier
    settings = parse_config(config)
    name = _short_id(db, project)
    return insert(
        db,
        SweepRow,
        project_id=project.id,
        user_id=caller.user.id,
        name=name,
        config=config,
        state="PENDING",
        seed=str(settings.get("seed", f"{project.entity}/{project.name}/{name}")),
        expected=_expected(settings),
        request_key=request_key,
        created_at=now,
        updated_at=now,
        **columns,
    )


def _repeated(db: Connection, request_key: str, exact: bool, now: float) -> SweepRow | None:
    fresh = (
        "1 = 1"
        if exact
        else "NOT EXISTS (SELECT 1 FROM agents WHERE agents.sweep_id = sweeps.id)"
        f" AND created_at > {now - REPEAT_WINDOW_SECONDS}"
    )
    tail = f"WHERE request_key = ? AND state != '{DELETED}' AND {fresh} ORDER BY id DESC"
    return select_one(db, SweepRow, tail, request_key)


def _short_id(db: Connection, project: ProjectRow) -> str:
    alphabet = string.ascii_lowercase + string.digits
    while True:
        name = "".join(secrets.choice(alphabet) for _ in range(8))
        if not find(db, SweepRow, project_id=project.id, name=name):
            return name


def update_sweep(db: Connection, sweep: SweepRow, now: float, **changes: Any) -> SweepRow:
    """Set columns of a sweep; a new `config` also updates the derived columns."""
    if "config" in changes:
        changes["expected"] = _expected(parse_config(changes["config"]))
        changes["healed_retries"] = None
    return change(db, sweep, updated_at=now, **changes)


def find_sweep(db: Connection, project: ProjectRow, name: str) -> SweepRow | None:
    found = find(db, SweepRow, project_id=project.id, name=name)
    return None if found and found.state == DELETED else found


def list_sweeps(db: Connection, project: ProjectRow) -> list[SweepRow]:
    tail = f"WHERE project_id = ? AND state != '{DELETED}' ORDER BY id DESC"
    return select(db, SweepRow, tail, project.id)
