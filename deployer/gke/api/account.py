"""The caller's Google account: who owns what is created in the cloud."""

from __future__ import annotations

from typing import Any

import requests

from deployer.gke.api.token import refresh
from deployer.waiting import TIMEOUTS_SECONDS

TOKEN_INFO = "https://oauth2.googleapis.com/tokeninfo"
# What credentials of a machine say of their account until they have been refreshed.
UNRESOLVED = "default"


def find_account(credentials: Any, token_info: str = TOKEN_INFO) -> str:
    """Return the account of credentials; empty if Google answers and does not name it.

    Raises GoogleAuthError or RequestException if there is no answer: then a random id would be
    another owner than yesterday.
    """
    account = _read_account(credentials)
    if account == UNRESOLVED or not (account or credentials.valid):
        refresh(credentials)
        account = _read_account(credentials)
    if account:
        return "" if account == UNRESOLVED else account
    answer = requests.post(
        token_info, data={"access_token": credentials.token}, timeout=TIMEOUTS_SECONDS
    )
    if answer.status_code >= 500:
        answer.raise_for_status()
    return str(answer.json().get("email") or "") if answer.ok else ""


def _read_account(credentials: Any) -> str:
    names = (getattr(credentials, one, None) for one in ("service_account_email", "account"))
    return next((str(name) for name in names if name), "")
