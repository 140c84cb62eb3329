"""Which images a Dockerfile builds on, and what an image's labels say of them."""

from __future__ import annotations

import pytest

from deployer.images.bases import (
    BASES_LABEL,
    INPUTS_LABEL,
    is_ours,
    list_bases,
    list_changed,
    parse_base,
    write_bases,
)


@pytest.mark.parametrize(
    ("dockerfile", "bases"),
    [
        ("FROM python:3.12", ("python:3.12",)),
        ("ARG BASE=a/b:1\nFROM ${BASE} AS code\nFROM $BASE\nCOPY --from=code /x /y", ("a/b:1",)),
        ("ARG TAG=3\nFROM python:${TAG}-slim", ("python:4-slim",)),
        ("FROM ${BASE:-debian:12}", ("debian:12",)),
        ("FROM ${UNKNOWN}", ()),
        ("FROM scratch\nCOPY --from=0 /x /y", ()),
        (
            "FROM --platform=linux/amd64 r.example/x@sha256:00 AS a\n"
            "FROM a\nCOPY --chown=1 --from=b.example/y:2 /x /y",
            ("r.example/x@sha256:00", "b.example/y:2"),
        ),
        ("# FROM nothing\nfrom \\\n  debian:12 as x\nRUN echo FROM y", ("debian:12",)),
        # After the first stage an ARG is its stage's own.
        ("ARG A=one:1\nFROM ${A}\nARG A=two:2\nFROM ${A}", ("one:1",)),
    ],
)
def test_bases_of_a_dockerfile(dockerfile: str, bases: tuple[str, ...]) -> None:
    assert list_bases(dockerfile, {"TAG": "4"}) == bases


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("python", "docker.io/library/python latest"),
        ("nvidia/cuda:12.4", "docker.io/nvidia/cuda 12.4"),
        ("docker.io/library/python:3.12", "docker.io/library/python 3.12"),
        ("r.example:5000/team/x", "r.example:5000/team/x latest"),
        ("localhost/base:1", "localhost/base 1"),
    ],
)
def test_where_a_base_is(name: str, place: str) -> None:
    repository, tag = parse_base(name)
    assert f"{repository} {tag}" == place


def test_what_labels_say() -> None:
    labels = {INPUTS_LABEL: "abc", BASES_LABEL: write_bases({"a:1": "sha256:1", "b:1": "sha256:2"})}
    assert is_ours(labels, "abc")
    assert not is_ours(labels, "abd")
    assert not is_ours({}, "abc")
    assert list_changed(labels, {"a:1": "sha256:1"}) == []
    assert list_changed(labels, {"a:1": "sha256:9", "b:1": "sha256:2"}) == ["a:1"]
    assert list_changed({BASES_LABEL: "{"}, {"a:1": "sha256:1"}) == ["a:1"]
