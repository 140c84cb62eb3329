"""Users of an embedded backend that is reached over the network only, as in a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from deployer.wandb_api.client import Client

ADD_USER = """
mutation DeployerAddUser($name: String!, $key: String!) {
  deployerAddUser(input: { name: $name, key: $key }) { success }
}
"""
ADD_USER_KEY = """
mutation DeployerAddUserKey($name: String!, $key: String!, $label: String, $only: Boolean!) {
  deployerAddUserKey(input: { name: $name, key: $key, label: $label, only: $only }) { success }
}
"""
ROTATE_USER_KEY = """
mutation DeployerRotateUserKey($name: String!, $id: String!, $key: String!) {
  deployerRotateUserKey(input: { name: $name, keyID: $id, key: $key }) { success }
}
"""
REVOKE_USER_KEY = """
mutation DeployerRevokeUserKey($name: String!, $id: String!) {
  deployerRevokeUserKey(input: { name: $name, keyID: $id }) { success }
}
"""
LIST_USER_KEYS = """
query DeployerUserKeys($name: String!) { deployerUserKeys(name: $name) { id label createdAt } }
"""
REMOVE_USER = """
mutation DeployerRemoveUser($name: String!) {
  deployerRemoveUser(input: { name: $name }) { success }
}
"""
LIST_USERS = "query DeployerUsers { deployerUsers }"


@dataclass(frozen=True)
class UserKey:
    """What a backend tells of a key; the key itself it does not know."""

    id: str
    label: str
    created: str


def add_user(client: Client, name: str, key: str) -> None:
    """Add a user with an entity of their own; the client's key is the backend's own user's.

    Raises WandbError for a bad or taken name, or a key that no SDK would accept.
    """
    client.execute(ADD_USER, {"name": name, "key": key})


def add_user_key(client: Client, name: str, key: str, only: bool, label: str = "") -> None:
    """Give a user one more key; with `only`, the others end.

    Raises WandbError for an unknown user, the backend's own, or a key that cannot be.
    """
    client.execute(ADD_USER_KEY, {"name": name, "key": key, "label": label, "only": only})


def list_user_keys(client: Client, name: str) -> list[UserKey]:
    """Return what is known of a user's keys, oldest first; raises WandbError for nobody's name."""
    found = client.execute(LIST_USER_KEYS, {"name": name})["deployerUserKeys"]
    return [UserKey(key["id"], key["label"], key["createdAt"]) for key in found]


def rotate_user_key(client: Client, name: str, key_id: str, key: str) -> None:
    """Put a new key in the place of an old one.

    Raises WandbError for an unknown user or key id, the backend's own user, or a bad key.
    """
    client.execute(ROTATE_USER_KEY, {"name": name, "id": key_id, "key": key})


def revoke_user_key(client: Client, name: str, key_id: str) -> None:
    """Refuse one key of a user from now on.

    Raises WandbError for an unknown user or key id, or a user's only key.
    """
    client.execute(REVOKE_USER_KEY, {"name": name, "id": key_id}, repeatable=False)


def list_users(client: Client) -> list[str]:
    """Return the names of all users."""
    return list(client.execute(LIST_USERS)["deployerUsers"])


def remove_user(client: Client, name: str) -> None:
    """Refuse a user's keys from now on; what they made stays.

    Raises WandbError for an unknown user, or the backend's own.
    """
    client.execute(REMOVE_USER, {"name": name}, repeatable=False)
