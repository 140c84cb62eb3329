"""Signed addresses: each permits one action on one file until a certain time.

The SDK sends no key to an upload's address, and a browser or `curl` has none. The key that signs
never leaves the backend's folder, so an address tells nothing that outlives it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from deployer.backend.data_folder import write_private
from deployer.backend.refusal import Refusal

Action = Literal["upload", "download"]
# The tables whose rows have addresses.
RUN_FILES, ARTIFACT_FILES, MANIFESTS = "run_files", "artifact_files", "artifacts"

SIGNING_KEY_FILE = "signing.key"
# An upload waits in the SDK's queue through an outage; a download begins when it is asked for.
SECONDS: dict[Action, int] = {"upload": 24 * 3600, "download": 3600}


@dataclass(frozen=True)
class Target:
    """What an address stands for: a table's row, and the name a download is saved under."""

    table: str
    row_id: int
    name: str = ""


@dataclass(frozen=True)
class Signer:
    """Makes and checks addresses with one secret key."""

    key: bytes

    def path(self, action: Action, target: Target, now: float) -> str:
        """Return the address's path, good for a day (uploads) or an hour (downloads)."""
        expires = int(now) + SECONDS[action]
        signature = self._signature(action, target.table, target.row_id, expires)
        place = f"/{action}/{target.table}/{target.row_id}/{expires}/{signature}"
        return f"{place}/{quote(target.name)}" if target.name else place

    def check(self, action: Action, target: Target, expires: int, given: str, now: float) -> None:
        """Refuse with 403 an address that was not made here, or whose time is over."""
        signature = self._signature(action, target.table, target.row_id, expires)
        if not hmac.compare_digest(signature.encode(), given.encode()):
            raise Refusal(403, "permission denied: the address is not signed by this server")
        if now > expires:
            raise Refusal(403, "permission denied: the address has expired; ask for a new one")

    def _signature(self, action: Action, table: str, row_id: int, expires: int) -> str:
        text = f"{action}/{table}/{row_id}/{expires}"
        return hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()[:40]


def load_signer(folder: Path) -> Signer:
    """Return the folder's signer; addresses stay good when the server starts again."""
    path = folder / SIGNING_KEY_FILE
    if not path.exists():
        write_private(path, secrets.token_hex(32))
    return Signer(bytes.fromhex(path.read_text().strip()))
