"""Users of an embedded backend that is reached over the network only, as in a cluster."""

from __future__ import annotations

from deployer.wandb_api.client import Client

ADD_USER = """
mutation DeployerAddUser($name: String!, $key: String!) {
  deployerAddUser(input: { name: $name, key: $key }) { success }
}
"""
ADD_USER_KEY = """
mutation DeployerAddUserKey($name: String!, $key: String!, $only: Boolean!) {
  deployerAddUserKey(input: { name: $name, key: $key, only: $only }) { success }
}
"""
REMOVE_USER = """
mutation DeployerRemoveUser($name: String!) {
  deployerRemoveUser(input: { name: $name }) { success }
}
"""
LIST_USERS = "query DeployerUsers { deployerUsers }"


def add_user(client: Client, name: str, key: str) -> None:
    """Add a user with an entity of their own; the client's key is the backend's own user's.

    Raises WandbError for a bad or taken name, or a key that no SDK would accept.
    """
    client.execute(ADD_USER, {"name": name, "key": key})


def add_user_key(client: Client, name: str, key: str, only: bool) -> None:
    """Give a user one more key; with `only`, the others end.

    Raises WandbError for an unknown user, the backend's own, or a key that cannot be.
    """
    client.execute(ADD_USER_KEY, {"name": name, "key": key, "only": only})


def list_users(client: Client) -> list[str]:
    """Return the names of all users."""
    return list(client.execute(LIST_USERS)["deployerUsers"])


def remove_user(client: Client, name: str) -> None:
    """Refuse a user's keys from now on; what they made stays.

    Raises WandbError for an unknown user, or the backend's own.
    """
    client.execute(REMOVE_USER, {"name": name}, repeatable=False)
