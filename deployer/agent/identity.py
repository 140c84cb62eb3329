"""Logs in with an identity token like the SDK: exchanges a JWT in a file for an access token.

Access tokens are kept in the SDK's own file, so that all of a user's processes share one (SDK 0.31,
`wandb/sdk/wandb_settings.py` credentials_file; 0.26, `wandb/sdk/lib/credentials.py`).
"""

import json
import os
import time
from calendar import timegm
from typing import Any, Callable, Dict, Mapping

from .settings import TOKEN_FILE_VARIABLE

CREDENTIALS_VARIABLE = "WANDB_CREDENTIALS_FILE"
CREDENTIALS_FILE = "~/.config/wandb/credentials.json"
TIME_FORMAT = "%Y-%m-%d %H:%M:%S"  # in UTC
GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"  # RFC 7523
EARLY_SECONDS = 30.0
Exchange = Callable[[str, Dict[str, str]], Mapping[str, Any]]


def get_access_token(
    base_url: str, exchange: Exchange, environment: Mapping[str, str] = os.environ
) -> str:
    """Return an access token for a server; `exchange` posts a form to it and returns its JSON.

    Raises ValueError if the identity token cannot be read, and whatever `exchange` raises.
    """
    path = os.path.expanduser(environment.get(CREDENTIALS_VARIABLE) or CREDENTIALS_FILE)
    kept = _read(path)
    found = kept.get(base_url) or {}
    if _expires_at(found) - EARLY_SECONDS > time.time():
        return str(found["access_token"])
    file = environment.get(TOKEN_FILE_VARIABLE, "")
    try:
        with open(file, encoding="utf-8") as opened:
            token = opened.read().strip()
    except OSError as error:
        raise ValueError(f"{TOKEN_FILE_VARIABLE} names {file}: {error.strerror}") from None
    form = {"grant_type": GRANT_TYPE, "assertion": token}
    answer = dict(exchange(f"{base_url}/oidc/token", form))
    seconds = float(answer.pop("expires_in", 0))
    answer["expires_at"] = time.strftime(TIME_FORMAT, time.gmtime(time.time() + seconds))
    _write(path, {**kept, base_url: answer})
    return str(answer["access_token"])


def _read(path: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file).get("credentials") or {})
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _expires_at(found: Any) -> float:
    try:
        return float(timegm(time.strptime(found["expires_at"], TIME_FORMAT)))
    except (KeyError, TypeError, ValueError):
        return 0.0


def _write(path: str, credentials: Dict[str, Any]) -> None:
    """Store the tokens if possible; otherwise each process exchanges its own token."""
    draft = f"{path}.{os.getpid()}.tmp"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump({"credentials": credentials}, file, indent=4)
        os.replace(draft, path)
    except OSError:
        pass
