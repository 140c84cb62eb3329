"""What filters and orders may name of runs and sweeps: W&B's words, in snake or camel case."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from deployer.backend.db.runs import Run
from deployer.backend.db.sweeps import Sweep
from deployer.backend.parsing import read_object
from deployer.backend.refusal import Refusal

R = TypeVar("R")
Reader = Callable[[R], Any]

# A row has no such key; None is a value that somebody wrote.
MISSING = object()


@dataclass(frozen=True)
class Fields(Generic[R]):
    """How the keys of one kind of row are read.

    `times` are in seconds since the epoch. `documents` are JSON of which `head.a.b` is a part;
    each gives the forms in which the part may be, and the first that has it counts.
    """

    columns: Mapping[str, Reader[R]]
    times: Mapping[str, Reader[R]]
    documents: Mapping[str, Callable[[R], tuple[Any, ...]]]

    def reader(self, key: str) -> Reader[R]:
        """Return what reads a key of a row, MISSING where it has none; refuse an unknown key."""
        head, _, path = key.partition(".")
        if path and (forms := self.documents.get(_snake(head))):
            return lambda row: _first(forms(row), path)
        column = self.columns.get(_snake(key)) or self.times.get(_snake(key))
        if column is None:
            raise Refusal(400, f'unknown key "{key}" in a filter or an order')
        return lambda row: MISSING if (value := column(row)) is None else value

    def is_time(self, key: str) -> bool:
        """Tell whether a key's values are times."""
        return _snake(key) in self.times


def dig(document: Any, path: str) -> Any:
    """Return a part by its dotted path; a key that itself contains dots goes first."""
    if not isinstance(document, dict):
        return MISSING
    if path in document:
        return document[path]
    for cut in reversed([spot for spot, letter in enumerate(path) if letter == "."]):
        found = dig(document.get(path[:cut]), path[cut + 1 :])
        if found is not MISSING:
            return found
    return MISSING


def _first(forms: tuple[Any, ...], path: str) -> Any:
    found = (dig(form, path) for form in forms)
    return next((value for value in found if value is not MISSING), MISSING)


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z])[A-Z]", lambda letter: "_" + letter[0].lower(), key)


def run_fields(sweep_names: Mapping[int, str], user_names: Mapping[int, str]) -> Fields[Run]:
    """Return the fields of runs; the mappings lead from rows to short ids and to user names."""

    def username(run: Run) -> str | None:
        return user_names.get(run.user_id)

    summary = _latest(lambda run: (read_object(run.summary),))
    columns: dict[str, Reader[Run]] = {
        "name": lambda run: run.name,
        "display_name": lambda run: run.display_name,
        "state": lambda run: run.state,
        "group": lambda run: run.group_name,
        "job_type": lambda run: run.job_type,
        "host": lambda run: run.host,
        "program": lambda run: run.program,
        "commit": lambda run: run.commit_hash,
        "description": lambda run: run.notes or run.description,
        "notes": lambda run: run.notes,
        "tags": lambda run: json.loads(run.tags),
        "sweep": lambda run: sweep_names.get(run.sweep_id or 0),
        "duration": _duration,
        "username": username,
        "user": username,
        "user.username": username,
    }
    return Fields(
        columns,
        {
            "created_at": lambda run: run.created_at,
            "heartbeat_at": lambda run: run.heartbeat_at or run.created_at,
        },
        {
            "config": _latest(_config_forms),
            "summary_metrics": summary,
            "summary": summary,
        },
    )


def _latest(read: Callable[[Run], tuple[Any, ...]]) -> Callable[[Run], tuple[Any, ...]]:
    """Read a row once for all terms of a filter, which look at one row after the other."""
    known: tuple[Run | None, tuple[Any, ...]] = (None, ())

    def latest(run: Run) -> tuple[Any, ...]:
        nonlocal known
        if known[0] is not run:
            known = (run, read(run))
        return known[1]

    return latest


def _duration(run: Run) -> float:
    return max(0.0, (run.heartbeat_at or run.created_at) - run.created_at)


def _config_forms(run: Run) -> tuple[Any, ...]:
    """Return a configuration as users write it, then as it is stored (`lr.value`)."""
    stored = read_object(run.config) or {}
    plain = {
        name: entry["value"] if isinstance(entry, dict) and "value" in entry else entry
        for name, entry in stored.items()
    }
    return (plain, stored)


SWEEP_FIELDS: Fields[Sweep] = Fields(
    {
        "name": lambda sweep: sweep.name,
        "display_name": lambda sweep: sweep.title,
        "state": lambda sweep: sweep.state,
        "method": lambda sweep: sweep.method,
        "description": lambda sweep: sweep.description,
    },
    {
        "created_at": lambda sweep: sweep.created_at,
        "updated_at": lambda sweep: sweep.updated_at,
        "heartbeat_at": lambda sweep: sweep.updated_at,
    },
    {"config": lambda sweep: (sweep.settings,)},
)
