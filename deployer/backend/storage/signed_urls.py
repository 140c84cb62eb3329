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

SIGNING_KEY_FILE = "signing.key"
# An upload waits in the SDK's queue through an outage; a download begins when it is asked for.
SECONDS: dict[Action, int] = {"upload": 24 * 3600, "download": 3600}


@dataclass(frozen=True)
class Signer:
    """Makes and checks addresses with one secret key."""

    key: bytes

    def path(self, action: Action, file_id: int, now: float, name: str = "") -> str:
        """Return a file's path, good for a day (uploads) or an hour (downloads).

        A download is saved under the name.
        """
        place, expires = f"files/{file_id}", int(now) + SECONDS[action]
        path = f"/{action}/{place}/{expires}/{self._signature(action, place, expires)}"
        return f"{path}/{quote(name)}" if name else path

    def check(self, action: Action, place: str, expires: int, given: str, now: float) -> None:
        """Refuse with 403 an address that was not made here, or whose time is over."""
        signature = self._signature(action, place, expires)
        ours = place.startswith("files/")  # older versions signed numbers of tables that are gone
        if not ours or not hmac.compare_digest(signature.encode(), given.encode()):
            raise Refusal(403, "permission denied: the address is not signed by this server")
        if now > expires:
            raise Refusal(403, "permission denied: the address has expired; ask for a new one")

    def _signature(self, action: Action, place: str, expires: int) -> str:
        text = f"{action}/{place}/{expires}"
        return hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()[:40]


def load_signer(folder: Path) -> Signer:
    """Return the folder's signer; addresses stay good when the server starts again."""
    path = folder / SIGNING_KEY_FILE
    if not path.exists():
        write_private(path, secrets.token_hex(32))
    return Signer(bytes.fromhex(path.read_text().strip()))
