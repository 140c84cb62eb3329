"""Users of a data folder on this machine, changed in its database, also while it is served."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from deployer.backend.data_folder import (
    FolderLock,
    is_served,
    make_data_folder,
    read_key,
    write_key,
)
from deployer.backend.db.rows import Connection
from deployer.backend.db.store import DATABASE, Store
from deployer.backend.db.users import keys as user_keys
from deployer.backend.db.users.accounts import (
    Key,
    create_user,
    find_caller,
    get_user,
    hash_key,
    key_id_of,
    list_present_users,
    new_key,
    remove_user,
)
from deployer.errors import BackendError

__all__ = ["new_key"]


def identify(key: str) -> str:
    """Return the id that lists call a key by."""
    return key_id_of(hash_key(key))


def add_user(data: Path, name: str, key: str) -> None:
    """Add a user with an entity of their own.

    Raises BackendError for a bad or taken name, or a key that no SDK would accept.
    """
    with _accounts(data, "deployer backend user add NAME --key-stdin") as db:
        create_user(db, name, key, time.time())


def add_user_key(data: Path, name: str, key: str, only: bool, label: str = "") -> Key:
    """Give a user one more key; with `only`, the others end.

    Raises BackendError for an unknown user, or a key that no SDK would accept or somebody has.
    """
    with _accounts(data, "deployer backend user list") as db:
        first = find_caller(db, read_key(data))
        added = user_keys.add_key(db, name, key, time.time(), only, label)
    # The command line itself works with this one.
    if only and first and first.user.name == name:
        write_key(data, key)
    return added


def list_user_keys(data: Path, name: str) -> list[Key]:
    """Return what is known of a user's keys, oldest first.

    Raises BackendError for an unknown user.
    """
    with _accounts(data, "deployer backend user list") as db:
        return user_keys.list_keys(db, get_user(db, name))


def rotate_user_key(data: Path, name: str, key_id: str, key: str) -> Key:
    """Put a new key in the place of an old one, also of the one that deployer works with.

    Raises BackendError for an unknown user or key id, or a key that cannot be.
    """
    with _accounts(data, f"deployer backend user keys {name}") as db:
        held = read_key(data)
        first = find_caller(db, held)
        rotated = user_keys.rotate_key(db, name, key_id, key, time.time())
    if first and first.user.name == name and identify(held) == key_id:
        write_key(data, key)
    return rotated


def revoke_user_key(data: Path, name: str, key_id: str) -> None:
    """Refuse one key of a user from now on.

    Raises BackendError for an unknown user or key id, a user's only key and deployer's own.
    """
    with _accounts(data, f"deployer backend user rotate {name} KEY-ID replaces a key") as db:
        user_keys.revoke_key(db, name, key_id, kept=read_key(data))


def list_user_names(data: Path) -> list[str]:
    """Return everybody's name, the folder's own user first."""
    with _accounts(data, "deployer backend up") as db:
        return [user.name for user in list_present_users(db)]


def remove_user_of(data: Path, name: str) -> None:
    """Refuse a user's keys from now on, and take the name off the list; what they made stays.

    Raises BackendError for an unknown user and for the folder's own.
    """
    with _accounts(data, "deployer backend user list") as db:
        owner = find_caller(db, read_key(data))
        remove_user(db, name, owner.user.name if owner else "")


@contextmanager
def _accounts(data: Path, hint: str) -> Iterator[Connection]:
    make_data_folder(data)
    # A folder that nobody has served yet gets its tables here, and from nobody else meanwhile.
    with nullcontext() if is_served(data) else FolderLock(data):
        store = Store(data / DATABASE)
    try:
        with store.transaction() as db:
            yield db
    except ValueError as error:
        raise BackendError(str(error), hint) from error
    finally:
        store.close()
