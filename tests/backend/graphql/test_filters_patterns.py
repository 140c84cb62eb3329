"""Patterns of users: MongoDB's answers, and none takes long."""

from __future__ import annotations

import json
import time
from contextlib import suppress

import pytest
import requests  # noqa: TID251 - a test is a client of its own

from deployer.backend.graphql.filters import Pattern, PatternError
from tests.backend.client import Client

RUN_COUNT = """query Count($project: String!, $filters: JSONString)
{ project(name: $project) { runCount(filters: $filters) } }"""
ENDLESS = "^(a|a)+$b"


@pytest.mark.parametrize(
    ("pattern", "options", "found", "missed"),
    [
        ("lr", "", ["lr=0.1", "a lr"], ["LR", "l r", ""]),
        ("^run-[0-9]+$", "", ["run-1", "run-12\n"], ["run-", "a run-1", "run-1\n\n"]),
        ("^b$", "m", ["a\nb\nc", "b"], ["ab", "bc"]),
        ("^$", "m", ["", "a\n\nb"], ["a", "a\n"]),
        ("a.b", "", ["axb"], ["a\nb", "ab"]),
        ("a.b", "s", ["axb", "a\nb"], ["ab"]),
        ("straße", "i", ["STRAßE", "Straße"], ["STRASSE"]),
        ("[^a-c]x", "i", ["dx", "DX"], ["ax", "AX", "x"]),
        (r"^\d+$", "", ["12"], ["\u0663", "1a"]),
        (r"^\w+$", "", ["a_1"], ["é", "a-1"]),
        (r"\bnet\b", "", ["a net", "net-5"], ["network", "net_5"]),
        (r"\B", "", ["", "ab"], ["a"]),
        ("^(adam|sgd)(-w)?$", "", ["adam", "sgd-w"], ["adam-", "adamsgd"]),
        ("^(?:ab){2,3}$", "", ["abab", "ababab"], ["ab", "abababab"]),
        ("a{2,}b", "", ["xaab", "aaaab"], ["ab"]),
        ("^a*?b+?c??$", "", ["b", "aabbc"], ["c", "bcc"]),
        ("(?i)Seed", "", ["seed", "SEED"], ["sed"]),
        ("^(?i:a)b$", "", ["Ab", "ab"], ["AB"]),
        ("a b # the end", "x", ["ab"], ["a b"]),
        (r"^[\w.-]+@[^\s@]+\.org\Z", "", ["a.b-c@d.org"], ["a@b@c.org", "a@b.orgs"]),
        ("^[[:alpha:]_]+$", "", ["ab_"], ["a1", "é", ""]),
        ("^[^[:space:][:digit:]]$", "", ["a"], [" ", "1"]),
        ("^[[:^alpha:]]$", "", ["1"], ["a"]),
        ("^[[:punct:]]+$", "", ["!/:@[\\]^_`{|}~"], ["a", "0", " "]),
        ("^[[:upper:]]$", "i", ["a", "A"], ["1"]),
        (r"^\pL+$", "", ["éa", "日本"], ["a1", ""]),
        (r"^\p{Lu}\p{Ll}$", "", ["Éa"], ["éa", "ÉA"]),
        (r"^\P{L}[^\pL\d]$", "", ["1-"], ["a-", "1a", "11"]),
        (r"^\\pL$|^\[:alpha:\]$", "", ["\\pL", "[:alpha:]"], ["é", "a"]),
        ("", "", ["", "a"], []),
        (r"x*", "", ["", "y"], []),
    ],
)
def test_mongo_s_answers(pattern: str, options: str, found: list[str], missed: list[str]) -> None:
    made = Pattern(pattern, options)
    assert [text for text in found + missed if made.search(text)] == found


@pytest.mark.parametrize(
    "pattern",
    [ENDLESS, "(a*)*b", "(a+)+$b", "a" + ".*a" * 300 + "b", "(((a{9}){9}){9}){9}", "(?:){60000}"],
)
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    begun = time.process_time()
    with suppress(PatternError):
        assert not Pattern(pattern).search("a" * 20_000)
    assert time.process_time() - begun < 20


@pytest.mark.parametrize(
    "pattern",
    ["(", "(?=a)", r"(a)\1", r"\p{Greek}", r"\p", "[[:al:]]", r"[\pL-z]", "a++", "x" * 1001],
)
def test_what_the_engine_cannot_do_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match=r"^\w"):
        Pattern(pattern)


def test_a_pattern_that_re_never_ends_with_hangs_nobody(client: Client) -> None:
    client.init_run("r", displayName="a" * 5000)
    reply = client.post(RUN_COUNT, filters=json.dumps({"displayName": {"$regex": ENDLESS}}))
    assert reply.json() == {"data": {"project": {"runCount": 0}}}
    assert requests.get(f"{client.url}/healthz", timeout=1).text == "ok"
