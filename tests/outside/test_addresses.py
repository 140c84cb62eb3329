"""Our addresses, pages and keys of servers, beside what each SDK says of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deployer.agent.addresses import (
    CLOUD_PAGES_URL,
    CLOUD_URL,
    FIRST_FORGE_SDK,
    address_for,
    build_pages_url,
    canonical,
    is_same,
    normalise,
    split_page,
)
from deployer.agent.prologue import deployer_sdk
from deployer.config.project import Flags
from tests.contract.sdks import python_with
from tests.outside.recording import ask_sdk, list_differences, list_kept, read_kept
from tests.project_files import read_project

VERSIONS = list_kept()
NEWEST = VERSIONS[-1]
# The locked one is installed; the others are fetched.
EACH = [pytest.param(one, marks=[] if one == NEWEST else [pytest.mark.full]) for one in VERSIONS]


@pytest.mark.parametrize("version", EACH)
def test_what_is_kept_is_what_the_sdk_says(version: str) -> None:
    python = Path(sys.executable) if version == NEWEST else python_with(version)
    assert list_differences(version, ask_sdk(python)) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_an_sdk_reaches_the_cloud_by_a_name_that_it_knows(version: str) -> None:
    assert is_same(read_kept(version)["default_base_url"], CLOUD_URL)
    assert address_for(CLOUD_URL, version) == read_kept(version)["default_base_url"]
    assert address_for("https://api.wandb.ai", version) == "https://api.wandb.ai"
    assert address_for("https://corp.example", version) == "https://corp.example"


def test_runs_and_agents_agree_on_the_first_sdk_that_knows_the_new_name() -> None:
    """A run's prologue stands alone, and so has a copy."""
    assert deployer_sdk.FIRST_FORGE_SDK == FIRST_FORGE_SDK


def test_pages_are_where_the_sdk_prints_them() -> None:
    assert build_pages_url(CLOUD_URL) == CLOUD_PAGES_URL
    for url, said in read_kept(NEWEST)["addresses"].items():
        if "pages" in said:
            assert build_pages_url(normalise(url)) == said["pages"], url
        else:  # the SDK refuses what a user may well type for the cloud
            assert canonical(normalise(url)) == CLOUD_URL, url


@pytest.mark.parametrize("version", VERSIONS)
def test_a_page_that_an_sdk_prints_leads_back_to_its_server(version: str) -> None:
    for url, said in read_kept(version)["addresses"].items():
        if "pages" not in said:
            continue
        page = f"{said['pages']}/team/proj/sweeps/abc"
        for known in ([], [(url, said["pages"])]):
            found = split_page(page, known)
            assert found is not None
            assert found[1] == ["team", "proj", "abc"]
            # `wandb.corp.example` alone may be the pages of `api.wandb.corp.example`, or all of it.
            if known or "://api.wandb.corp" not in url:
                assert is_same(found[0], url), url


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://api.wandb.ai", "https://forge.coreweave.com/api/wandb", True),
        ("https://Corp.Example:443/w/", "https://corp.example/w", True),
        ("http://127.0.0.1:8080", "http://localhost:8080", True),
        ("http://corp.example", "https://corp.example", False),
        ("https://corp.example/a", "https://corp.example/b", False),
        ("https://api.wandb.ai", "https://api.qa.wandb.ai", False),
        ("https://api.wandb.ai.corp.example", "https://api.wandb.ai", False),
        ("https://corp.example:99999999", "https://corp.example", False),
    ],
)
def test_two_addresses_are_one_server_or_not(one: str, other: str, same: bool) -> None:
    assert is_same(one, other) is same


def test_a_key_is_found_as_the_sdk_finds_it(tmp_path: Path) -> None:
    for row in read_kept(NEWEST)["netrc"]:
        lines = [
            f"{host if host == 'default' else f'machine {host}'} login user password {host:_<40}\n"
            for host in row["entries"]
        ]
        (tmp_path / ".netrc").write_text("".join(lines))
        key = read_project(tmp_path, Flags(wandb=row["server"])).key.rstrip("_") or None
        # Beyond the SDK, each name of the cloud finds a key of the others.
        cloud = is_same(row["server"], CLOUD_URL)
        newer = "api.forge.coreweave.com" if cloud else None
        assert key == (row["used"] or (newer if newer in row["entries"] else None)), row
