"""What is said about a text that is no YAML, or too much of it."""

from __future__ import annotations

import pytest

from deployer.config.document import parse_document
from deployer.errors import ConfigError

LAUGHS = "a0: &a0 [1, 2]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


def complaint_about(text: str) -> tuple[str, str]:
    with pytest.raises(ConfigError) as caught:
        parse_document(text, "s.yaml")
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: b: c", "s.yaml:1:5: unreadable YAML: a second colon"),
        ("a: 1\n  b: 2", "s.yaml:2:4: unreadable YAML: a second colon"),
        ("a: {b: 1", "s.yaml:1:9: unreadable YAML: a mapping without its closing brace"),
        ("a: 'x", "s.yaml:1:6: unreadable YAML: a text without its closing quote"),
        ('a: "\\q"', "s.yaml:1:6: unreadable YAML: a backslash in double quotes"),
        ("a: 1\nb\n", "s.yaml:3:1: unreadable YAML: a key without a colon"),
        ("a: *x", "s.yaml:1:4: unreadable YAML: *x is not defined"),
        ("a: !t 1", "s.yaml:1:4: unreadable YAML: the tag !t is not known"),
        ("a: @x", "s.yaml:1:4: unreadable YAML: a value begins with @"),
        ("a:\n  - 1\n b: 2", "s.yaml:3:2: unreadable YAML: a line with a different indentation"),
        ("a: " + "[" * 5000, "s.yaml:1: nested too deeply: more than 100 levels"),
    ],
)
def test_broken_yaml_is_explained_in_our_words(text: str, said: str) -> None:
    message, hint = complaint_about(text)
    assert message == said
    assert hint


def test_aliases_of_aliases_are_bounded() -> None:
    message, hint = complaint_about(LAUGHS)
    assert message == "s.yaml: nested aliases expand to more than 100,000 values"
    assert hint == "write the values instead of aliases"
    assert parse_document("a: &a [1]\nb: [*a, *a]", "s.yaml").value == {"a": [1], "b": [[1], [1]]}
