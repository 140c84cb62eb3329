"""Users of an embedded backend, as its own user manages them."""

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
    """What a backend tells of a key; the key itself it does not know."""

    id: str
    label: str
    created: str


def add_user(client: Client, name: str, key: str, label: str = "") -> None:
    """Add a user with an entity of their own, or give one who is there another key.

    Raises WandbError for a bad name or label, and for a key that no SDK would accept.
    """
    client.execute(ADD_USER, {"name": name, "key": key, "label": label})


def list_users(client: Client) -> dict[str, list[UserKey]]:
    return {
        user["name"]: [UserKey(key["id"], key["label"], key["createdAt"]) for key in user["keys"]]
        for user in client.execute(LIST_USERS)["deployerUsers"]
    }


def remove_user(client: Client, name: str) -> None:
    """Refuse a user's keys from now on; what they made stays.

    Raises WandbError for an unknown user, or the backend's own.
    """
    client.execute(REMOVE_USER, {"name": name}, repeatable=False)


def revoke_key(client: Client, name: str, key_id: str) -> None:
    """Refuse one key of a user from now on.

    Raises WandbError for an unknown user or key id, a user's only key, or the client's own.
    """
    client.execute(REVOKE_USER_KEY, {"name": name, "id": key_id}, repeatable=False)
