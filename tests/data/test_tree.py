"""Which paths a tree may have."""

from __future__ import annotations

import pytest

from deployer.data.store import Entry, check_path, is_own
from deployer.errors import DataError


@pytest.mark.parametrize("path", ["a", "a/b.c", "..a/b..", "é/名", " ", "a\\b", "x" * 255])
def test_paths_of_files(path: str) -> None:
    assert check_path(path) == path


@pytest.mark.parametrize(
    "path", ["", "/a", "a//b", "a/", "../a", "a/../b", "a/./b", ".", "a\0b", "\udcff", "x" * 256]
)
def test_paths_that_leave_the_tree_or_are_no_files(path: str) -> None:
    with pytest.raises(DataError):
        check_path(path)


def test_what_a_copy_keeps_for_itself_is_no_data() -> None:
    assert is_own(".deployer-partial/x")
    assert not is_own(".deployer-partial-2/x")


def test_an_identity_is_of_one_content_under_one_path() -> None:
    one = Entry("a", 5, "00", tag="x")
    assert one.identity == Entry("a", 5, "00", tag="y").identity
    others = (Entry("b", 5, "00"), Entry("a", 6, "00"), Entry("a", 5, "01"), Entry("a", 5))
    assert len({one.identity, *(other.identity for other in others)}) == 5
