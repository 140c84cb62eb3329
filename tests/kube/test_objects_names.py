"""Names of objects: valid ones stay, nasty ones become a slug and a hash."""

from __future__ import annotations

import re

import pytest

from deployer.kube.objects import SWEEP_LABEL, build_label, build_labels, build_name, build_selector

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?")
LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

# Text, its name, its label.
TABLE = (
    ("ab12cd34-1", "ab12cd34-1", "ab12cd34-1"),
    ("1", "1", "1"),
    ("a" * 52, "a" * 52, "a" * 52),
    ("a" * 53, "a" * 43 + "-abe346a7", "a" * 53),
    ("a" * 63, "a" * 43 + "-7d3e74a0", "a" * 63),
    ("a" * 64, "a" * 43 + "-ffe054fe", "a" * 54 + "-ffe054fe"),
    ("SWEEP_ID-1", "sweep-id-1-", "SWEEP_ID-1"),
    ("Upper", "upper-", "Upper"),
    ("a.b", "a-b-", "a.b"),
    ("a_b", "a-b-", "a_b"),
    ("-a", "a-", "a-"),
    ("a-", "a-", "a-"),
    ("Grüße, Welt", "grue-welt-", "grue-welt-"),
    ("日本", "", ""),
    ("", "", ""),
    ("---", "", ""),
    ("a/b\n", "a-b-", "a-b-"),
    ("a\n", "a-", "a-"),
    ("x" * 43 + "- y", "x" * 43 + "-", "x" * 43 + "-y-"),
)


@pytest.mark.parametrize(("text", "name", "label"), TABLE)
def test_nasty_names(text: str, name: str, label: str) -> None:
    assert build_name(text).startswith(name)
    assert build_label(text).startswith(label)
    assert NAME.fullmatch(build_name(text))
    assert text == "" or LABEL.fullmatch(build_label(text))
    assert build_name(text) == build_name(text)


def test_texts_with_one_slug_have_different_names() -> None:
    texts = ("a_b", "a.b", "A b", "a b", "ä-b", "a-b")
    assert len({build_name(text) for text in texts}) == len(texts)


def test_labels_find_a_sweep_and_one_of_its_agents() -> None:
    labels = build_labels("agent", "me/proj/ab12", "ab12-3")
    for selector in (
        build_selector(),
        build_selector("me/proj/ab12"),
        build_selector("me/proj/ab12", "agent"),
        build_selector("me/proj/ab12", agent="ab12-3"),
    ):
        wanted = dict(pair.split("=") for pair in selector.split(","))
        assert wanted.items() <= labels.items()
    assert SWEEP_LABEL not in build_labels("key")
    assert build_selector("me/proj/ab12") != build_selector("me/proj/ab13")
