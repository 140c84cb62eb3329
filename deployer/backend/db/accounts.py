"""Users with their keys, and their projects.

Keys are long and random, so the database stores only a plain SHA-256. A key's id is the beginning
of its hash. A session belongs to the key that it was created with, and ends with it; it survives a
restart of the server.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Any, ClassVar

from deployer.backend.db.rows import (
    Connection,
    TableRow,
    delete,
    find,
    find_all,
    get,
    insert,
    select,
    select_one,
)
from deployer.backend.request import Refusal, not_found

# What the SDK accepts: at least 40 of these characters, with an optional `prefix-` in front.
KEY_PATTERN = re.compile(r"(?:[A-Za-z0-9_]+-)?[A-Za-z0-9_-]{40,}")
# A removed user has only revoked keys of agents, which rows of agents still reference.
PRESENT = "EXISTS (SELECT 1 FROM keys WHERE keys.user_id = users.id AND keys.sweep_id IS NULL)"
# A month, since users open the page daily on their own machine.
SESSION_SECONDS = 30 * 24 * 3600
NODE_LENGTH = 253  # of Kubernetes' names
LABEL_LENGTH = 100
ID_LENGTH = 8  # of a key's name
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
DEFAULT_PROJECT = "uncategorized"  # W&B's name for a project without a name
LONGEST_NAME = 128


@dataclass(frozen=True)
class User(TableRow):
    """A person, who owns the entity of the same name."""

    table: ClassVar = "users"
    noun: ClassVar = "user"

    name: str
    created_at: float


@dataclass(frozen=True)
class Caller:
    """The caller of a request. With a `sweep_id`, the key is an agent's, valid for that sweep.

    It is `superseded` once a later supervisor of the same name has registered its own key.
    """

    user: User
    key_id: int
    sweep_id: int | None = None
    agent_name: str | None = None
    superseded: bool = False


@dataclass(frozen=True)
class KeyRow(TableRow):
    """A key's hash and metadata; an agent's key belongs to one sweep."""

    table: ClassVar = "keys"
    noun: ClassVar = "key"

    user_id: int
    sweep_id: int | None
    hash: str
    label: str
    created_at: float

    @property
    def key_id(self) -> str:
        return key_id_of(self.hash)


def new_key() -> str:
    """Return a new random key of 40 hexadecimal characters, valid for every SDK."""
    return secrets.token_hex(20)


def check_key(key: str) -> None:
    """Raise ValueError for a key that no SDK would accept."""
    if not KEY_PATTERN.fullmatch(key):
        raise ValueError("a key must have at least 40 of the characters A-Z a-z 0-9 _ -")


def check_key_label(label: str) -> None:
    """Raise ValueError for a label that is too long or not printable."""
    if len(label) > LABEL_LENGTH or not label.isprintable():
        raise ValueError(f"a label must be one line of at most {LABEL_LENGTH} characters")


def hash_key(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def key_id_of(key_hash: str) -> str:
    return key_hash[:ID_LENGTH]


def create_user(db: Connection, name: str, key: str, now: float, label: str = "") -> User:
    """Add a user with one key, or restore a removed one with all of their data.

    Raise ValueError for a bad or taken name, a bad label, or a short or foreign key.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise ValueError(f"user name {name!r} must be letters, digits, '-' and '_', at most 63")
    check_key_label(label)
    check_key(key)
    if select_one(db, User, f"WHERE name = ? AND {PRESENT}", name):
        raise ValueError(f"user {name!r} already exists")
    if find(db, KeyRow, hash=hash_key(key)):
        raise ValueError("this key is already in use")
    user = find(db, User, name=name) or insert(db, User, name=name, created_at=now)
    insert(db, KeyRow, hash=hash_key(key), user_id=user.id, created_at=now, label=label)
    return user


def get_user(db: Connection, name: str) -> User:
    """Return a user with a key; raise ValueError if not found."""
    user = select_one(db, User, f"WHERE name = ? AND {PRESENT}", name)
    if user is None:
        raise ValueError(f"user {name!r} not found")
    return user


def remove_user(db: Connection, name: str, owner: str) -> None:
    """Remove a user and revoke their keys; their data stays, hidden from everyone.

    Raise ValueError for an unknown user and for the backend's `owner`.
    """
    user = get_user(db, name)
    if name == owner:
        raise ValueError(f"{name} is the backend's own user and cannot be removed")
    db.execute("DELETE FROM keys WHERE user_id = ? AND sweep_id IS NULL", (user.id,))
    db.execute("UPDATE keys SET hash = 'removed ' || id WHERE user_id = ?", (user.id,))


def list_users(db: Connection) -> list[User]:
    return select(db, User, "ORDER BY id")


def list_present_users(db: Connection) -> list[User]:
    return select(db, User, f"WHERE {PRESENT} ORDER BY id")


def list_keys(db: Connection, user: User) -> list[KeyRow]:
    return find_all(db, KeyRow, user_id=user.id, sweep_id=None)


def add_key(db: Connection, name: str, key: str, now: float, label: str = "") -> None:
    """Add a key to a user; do nothing if they already have it.

    Raise ValueError for an unknown user, a bad label, a short or a foreign key.
    """
    user = get_user(db, name)
    check_key_label(label)
    check_key(key)
    owner = find_caller(db, key)
    if owner is None:
        insert(db, KeyRow, hash=hash_key(key), user_id=user.id, created_at=now, label=label)
    elif (owner.user.id, owner.sweep_id) != (user.id, None):
        raise ValueError("this key is already in use")


def replace_keys(db: Connection, name: str, key: str, now: float) -> None:
    """Like `add_key`, but also revoke the user's other keys, except those of their agents."""
    add_key(db, name, key, now)
    for other in list_keys(db, get_user(db, name)):
        if other.hash != hash_key(key):
            delete(db, other)


def revoke_key(db: Connection, name: str, key_id: str, kept: str) -> None:
    """Revoke one key of a user and end its sessions.

    Raise ValueError for an unknown user or key id, the user's only key, and the key `kept`.
    """
    keys = list_keys(db, get_user(db, name))
    named = [key for key in keys if key.key_id == key_id]
    if not named:
        raise ValueError(f"{name} has no key {key_id!r}")
    if len(named) > 1:  # a collision of two ids: 1 in 4 billion
        raise ValueError(f"{name} has {len(named)} keys {key_id!r}")
    if named[0].hash == hash_key(kept):
        raise ValueError(f"key {key_id} is used by deployer itself and cannot be removed")
    if len(keys) == 1:
        raise ValueError(f"key {key_id} is the only key of {name}; add another one first")
    delete(db, named[0])


def create_agent_key(db: Connection, caller: Caller, sweep_id: int, name: str, now: float) -> str:
    """Return a new key, valid only for one agent's work on one sweep."""
    key = new_key()
    _insert_agent_key(db, caller, sweep_id, name, key, now)
    return key


def adopt_own_key(db: Connection, caller: Caller, key: str, now: float, node: str = "") -> None:
    """Register the key that a supervisor on `node` chose for its agent; older keys cannot write.

    The supervisor chooses the key, so that the request is idempotent: a retry after a lost reply,
    or a late arrival, changes nothing. Raise ValueError for a bad or foreign key.
    """
    assert caller.sweep_id is not None
    assert caller.agent_name is not None
    check_key(key)
    owner = find_caller(db, key)
    if owner is None:
        name, node = caller.agent_name, node[:NODE_LENGTH]
        _insert_agent_key(db, caller, caller.sweep_id, name, key, now, own=1, node=node)
    elif (owner.sweep_id, owner.agent_name) != (caller.sweep_id, caller.agent_name):
        raise ValueError("this key is already in use")


def _insert_agent_key(
    db: Connection,
    caller: Caller,
    sweep_id: int,
    name: str,
    key: str,
    now: float,
    **of_supervisor: Any,
) -> None:
    insert(
        db,
        KeyRow,
        hash=hash_key(key),
        user_id=caller.user.id,
        sweep_id=sweep_id,
        agent_name=name,
        created_at=now,
        **of_supervisor,
    )


def check_newest(caller: Caller, status: int = 403) -> None:
    """Refuse an agent if a later supervisor of the same name has registered its key."""
    if caller.superseded:
        raise Refusal(status, f"agent {caller.agent_name} was started again and has a newer key")


def find_caller(db: Connection, key: str) -> Caller | None:
    return caller_of_hash(db, hash_key(key))


def caller_of_hash(db: Connection, key_hash: str) -> Caller | None:
    row = db.execute(
        "SELECT id, user_id, sweep_id, agent_name, EXISTS (SELECT 1 FROM keys AS newer"
        " WHERE newer.sweep_id = keys.sweep_id AND newer.agent_name = keys.agent_name"
        " AND newer.own = 1 AND newer.id > keys.id) AS superseded FROM keys WHERE hash = ?",
        (key_hash,),
    ).fetchone()
    if row is None:
        return None
    user = find(db, User, id=row["user_id"])
    if user is None:
        return None
    return Caller(
        user, row["id"], row["sweep_id"], row["agent_name"], superseded=bool(row["superseded"])
    )


def begin_session(db: Connection, key_hash: str, now: float) -> str:
    """Create a session for a key and return its token; delete expired sessions."""
    token = secrets.token_urlsafe(32)
    db.execute("DELETE FROM sessions WHERE ends_at <= ?", (now,))
    db.execute(
        "INSERT INTO sessions (hash, key_hash, ends_at) VALUES (?, ?, ?)",
        (hash_key(token), key_hash, now + SESSION_SECONDS),
    )
    return token


def caller_of_session(db: Connection, token: str, now: float) -> Caller | None:
    """Return the caller of a session's token; None if it expired or its key was revoked."""
    found = db.execute(
        "SELECT key_hash FROM sessions WHERE hash = ? AND ends_at > ?", (hash_key(token), now)
    ).fetchone()
    return caller_of_hash(db, found["key_hash"]) if found else None


def end_session(db: Connection, token: str) -> None:
    db.execute("DELETE FROM sessions WHERE hash = ?", (hash_key(token),))


@dataclass(frozen=True)
class ProjectRow(TableRow):
    """A folder of sweeps and runs under one entity."""

    table: ClassVar = "projects"
    noun: ClassVar = "project"

    entity: str
    name: str
    user_id: int
    created_at: float


def check_label(what: str, name: str) -> str:
    """Return a name; refuse one that is invalid in `entity/project/name:alias` with 400."""
    bad = set(name) & set("/:\\") or not name.isprintable() or name.strip() in ("", ".", "..")
    if bad or len(name) > LONGEST_NAME:
        said = f"at most {LONGEST_NAME} printable letters, without / : and \\"
        raise Refusal(400, f"invalid {what} {name[:LONGEST_NAME]!r}: {said}")
    return name


def find_project(
    db: Connection, caller: Caller, entity: str | None, name: str | None
) -> ProjectRow | None:
    wanted = name or DEFAULT_PROJECT
    own = _is_own(db, caller, entity)
    return find(db, ProjectRow, entity=caller.user.name, name=wanted) if own else None


def _is_own(db: Connection, caller: Caller, entity: str | None) -> bool:
    """Return True for the caller's entity, and for any entity if there is no other user.

    Files and scripts that were written for W&B have team names, which do not exist here.
    """
    return entity in (None, "", caller.user.name) or len(list_present_users(db)) == 1


def get_project(db: Connection, caller: Caller, entity: str | None, name: str | None) -> ProjectRow:
    project = find_project(db, caller, entity, name)
    if project is None:
        raise not_found(f"project {entity or caller.user.name}/{name}")
    return project


def ensure_project(
    db: Connection, caller: Caller, entity: str | None, name: str | None, now: float
) -> ProjectRow:
    """Return a project; create it if needed.

    Refuse with 403 an entity that may be another user's, and a new project for an agent's key.
    """
    own = caller.user
    if not _is_own(db, caller, entity):
        raise Refusal(403, f"permission denied: entity {entity} is not {own.name}'s")
    project = find_project(db, caller, entity, name)
    if project:
        return project
    if caller.sweep_id is not None:
        raise Refusal(403, "an agent's key cannot make projects")
    columns = {"name": check_label("project name", name or DEFAULT_PROJECT), "created_at": now}
    return insert(db, ProjectRow, entity=own.name, user_id=own.id, **columns)


def owns_project(db: Connection, caller: Caller, project_id: int) -> bool:
    return get(db, ProjectRow, project_id).entity == caller.user.name


def list_projects(db: Connection, caller: Caller, entity: str | None) -> list[ProjectRow]:
    own = _is_own(db, caller, entity)
    return find_all(db, ProjectRow, "id DESC", entity=caller.user.name) if own else []
