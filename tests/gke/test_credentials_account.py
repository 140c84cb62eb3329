"""Whose the cloud's things are: the caller's Google account, or what stands for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.oauth2.credentials import Credentials

from deployer.config.credentials import build_owner, load_random_owner
from deployer.errors import CloudError
from deployer.gke.api.client import Gke, open_gke
from deployer.gke.api.credentials import ApiPatience
from tests.gke.cloud import PROJECT, Cloud
from tests.gke.cloud_faults import UNAVAILABLE
from tests.gke.credentials import ACCOUNT

EMAIL = "me@example.com"


def open_with(credentials: Any) -> Gke:
    return Gke(PROJECT, credentials, os.environ, sleep=lambda _: None, patience=ApiPatience())


def test_an_account_is_named_by_its_credentials(cloud: Cloud) -> None:
    named = open_gke(None, os.environ, "team")
    assert named.owner == build_owner("team")
    assert open_gke(None, os.environ).owner == build_owner(ACCOUNT.format(project=PROJECT))
    of_user = Credentials(token="t", account=EMAIL)  # type: ignore[no-untyped-call]
    assert open_with(of_user).owner == build_owner(EMAIL)
    assert cloud.calls == ()


class Resolving(AnonymousCredentials):
    """Credentials of a machine, which learn their account by a refresh."""

    service_account_email = "default"

    def refresh(self, _: object) -> None:
        self.service_account_email = EMAIL


def test_a_machines_account_is_looked_up(cloud: Cloud) -> None:
    assert cloud.calls == ()
    assert open_with(Resolving()).owner == build_owner(EMAIL)


def test_google_is_asked_whose_a_token_is(cloud: Cloud, home: Path) -> None:
    """Without an answer nobody is made up; with one that names nobody, the state folder counts."""
    assert home
    nameless = Credentials(token="t")  # type: ignore[no-untyped-call]
    cloud.set_account(EMAIL)
    assert open_with(nameless).owner == build_owner(EMAIL)
    cloud.set_account("")
    assert open_with(nameless).owner == load_random_owner()
    cloud.fail("TokenInfo", UNAVAILABLE, times=9)
    with pytest.raises(CloudError, match="cannot determine your Google account"):
        _ = open_with(nameless).owner
