"""A user's own keys, one by one: labelled, listed, replaced, revoked.

A key is named by the beginning of its hash, which is never another key's and which whoever holds
the key can work out.
"""

from __future__ import annotations

from deployer.backend.db.rows import Connection, change, delete, find_all, insert
from deployer.backend.db.users.accounts import (
    Key,
    User,
    check_key,
    find_caller,
    get_user,
    hash_key,
    key_id_of,
)

OWN = "keys WHERE user_id = ? AND sweep_id IS NULL"
LABEL_LENGTH = 100


def list_keys(db: Connection, user: User) -> list[Key]:
    """Return a user's own keys, oldest first, without those of their agents."""
    return find_all(db, Key, user_id=user.id, sweep_id=None)


def add_key(db: Connection, name: str, key: str, now: float, only: bool, label: str = "") -> Key:
    """Give a user one more key; with `only`, the others they had are refused from now on.

    Keys of their agents stay. Adding a key that they have changes nothing of it. Raise ValueError
    for an unknown user, a bad label, a short or a foreign key.
    """
    user = get_user(db, name)
    if len(label) > LABEL_LENGTH or not label.isprintable():
        raise ValueError(f"a label is a line of at most {LABEL_LENGTH} characters")
    if not _has(db, user, key):
        insert(db, Key, hash=hash_key(key), user_id=user.id, created_at=now, label=label)
    if only:
        db.execute(f"DELETE FROM {OWN} AND hash != ?", (user.id, hash_key(key)))
    return _find(db, user, key_id_of(hash_key(key)))


def rotate_key(db: Connection, name: str, key_id: str, key: str, now: float) -> Key:
    """Put a new key in the place of an old one, which is refused from now on.

    Asking again after a lost reply changes nothing. Raise ValueError for an unknown user or key id,
    a short or a foreign key.
    """
    user = get_user(db, name)
    if not _has(db, user, key):
        old = _find(db, user, key_id)
        change(db, old, hash=hash_key(key), created_at=now)
    return _find(db, user, key_id_of(hash_key(key)))


def revoke_key(db: Connection, name: str, key_id: str, kept: str = "") -> None:
    """Refuse one key of a user from now on, and end what was signed in to with it.

    Raise ValueError for an unknown user or key id, the user's only key, and the key that is `kept`.
    """
    user = get_user(db, name)
    found = _find(db, user, key_id)
    if kept and found.hash == hash_key(kept):
        raise ValueError(f"key {found.key_id} is the one that deployer itself works with")
    if len(list_keys(db, user)) == 1:
        raise ValueError(f"key {found.key_id} is the only one of {name}")
    delete(db, found)


def _has(db: Connection, user: User, key: str) -> bool:
    """Tell whether a key is a user's own already; raise ValueError if it cannot become theirs."""
    check_key(key)
    owner = find_caller(db, key)
    if owner and (owner.user.id, owner.sweep_id) != (user.id, None):
        raise ValueError("this key is in use already")
    return owner is not None


def _find(db: Connection, user: User, key_id: str) -> Key:
    found = [key for key in list_keys(db, user) if key.key_id == key_id]
    if not found:
        raise ValueError(f"{user.name} has no key {key_id!r}")
    if len(found) > 1:  # of keys that somebody chose: two in four thousand million
        raise ValueError(f"{user.name} has {len(found)} keys {key_id!r}")
    return found[0]
