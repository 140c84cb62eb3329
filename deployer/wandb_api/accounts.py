"""Users of an embedded backend, managed by its owner."""

from __future__ import annotations

from dataclasses import dataclass

from deployer.wandb_api.client import Client

ADD_USER = """
mutation DeployerAddUser($name: String!, $key: String!, $label: String) {
  deployerAddUser(input: { name: $name, key: $key, label: $label }) { success }
}
"""
LIST_USERS = "query DeployerUsers { deployerUsers { name keys { id label createdAt } } }"
REMOVE_USER = """
mutation DeployerRemoveUser($name: String!) {
  deployerRemoveUser(input: { name: $name }) { success }
}
"""
REVOKE_USER_KEY = """
mutation DeployerRevokeUserKey($name: String!, $id: String!) {
  deployerRevokeUserKey(input: { name: $name, keyID: $id }) { success }
}
"""


@dataclass(frozen=True)
class UserKey:
    """A backend's information about a key; it does not know the key itself."""

    id: str
    label: str
    created: str


def add_user(client: Client, name: str, key: str, label: str = "") -> None:
    """Add a user with their own entity, or give an existing one another key.

    Raises WandbError for a bad name or label, and for a key that no SDK would accept.
    """
    client.execute(ADD_USER, {"name": name, "key": key, "label": label})


def list_users(client: Client) -> dict[str, list[UserKey]]:
    return {
        user["name"]: [UserKey(key["id"], key["label"], key["createdAt"]) for key in user["keys"]]
        for user in client.execute(LIST_USERS)["deployerUsers"]
    }


def remove_user(client: Client, name: str) -> None:
    """Revoke all keys of a user; their sweeps and runs stay.

    Raises WandbError for an unknown user, or the backend's own.
    """
    client.execute(REMOVE_USER, {"name": name}, repeatable=False)


def revoke_key(client: Client, name: str, key_id: str) -> None:
    """Revoke one key of a user.

    Raises WandbError for an unknown user or key id, a user's only key, or the client's own.
    """
    client.execute(REVOKE_USER_KEY, {"name": name, "id": key_id}, repeatable=False)
