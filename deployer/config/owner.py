"""Who owns the objects that we create: an id for labels, and the readable name behind it.

The label prevents accidents, not malice: docs/threats.md.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from dataclasses import dataclass, field

from deployer.config import paths

ID_LENGTH = 16  # hexadecimal characters: valid in labels of Kubernetes and of Google's cloud


@dataclass(frozen=True)
class Owner:
    """`id` is the value of the owner label; `name` is for people."""

    id: str
    name: str = field(compare=False)


# Stands in plans for the owner, which only a server knows.
UNKNOWN_OWNER = Owner("OWNER", "OWNER")


# As EKS names the session of a role that nobody has named: botocore-session-1764374400.
NAMELESS_SESSION = re.compile(r"^(arn:aws[\w-]*:sts::\d+:assumed-role/[^/]+)/.*\d$")


def drop_session(user: str) -> str:
    """Return a server's name for a user without what is another one tomorrow."""
    return NAMELESS_SESSION.sub(r"\1", user)


def build_owner(name: str) -> Owner:
    """Return the owner of this name: a server's name for the user, or what `--owner` says."""
    return Owner(hashlib.sha256(name.encode()).hexdigest()[:ID_LENGTH], name)


def load_random_owner() -> Owner:
    """Return this state folder's own owner, made once, for servers that do not name their users."""
    path = paths.home() / "owner"
    if not path.exists():
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.write_text(secrets.token_hex(ID_LENGTH // 2), encoding="utf-8")
        try:
            os.link(partial, path)  # keeps the one of a command that was faster
        except FileExistsError:
            pass
        finally:
            partial.unlink()
    return Owner(found := path.read_text(encoding="utf-8").strip(), f"state folder {found[:6]}")
