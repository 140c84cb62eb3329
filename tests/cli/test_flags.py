"""What holds for the flags of every command: durations, formats, help that is never cut."""

from __future__ import annotations

import pytest

from deployer import __version__
from deployer.__main__ import run
from deployer.cli.shell.call import Command, CommandWithCsv, CommandWithYaml
from deployer.text import parse_duration
from tests.docs.commands import is_group, list_commands

# Each command with a duration: the words that name it, the arguments that it needs, the flag.
DURATIONS = [
    (("up",), ["x.yaml"], "--max-time"),
    (("up",), ["x.yaml"], "--wait-for-capacity"),
    (("run",), [], "--max-time"),
    (("run",), [], "--wait-for-capacity"),
    (("run",), [], "--pending-timeout"),
    (("agents", "up"), [], "--max-time"),
    (("plan",), ["x.yaml"], "--max-time"),
    (("watch",), [], "--timeout"),
    (("watch",), [], "--pending-timeout"),
    (("agents", "up"), [], "--pending-timeout"),
    (("up",), ["x.yaml"], "--pending-timeout"),
    (("gke", "up"), [], "--wait-for-capacity"),
    (("orphans",), [], "--min-age"),
]


COMMANDS = list_commands()
LEAVES = {words: one for words, one in COMMANDS.items() if not is_group(one)}
GROUPS = [words for words in COMMANDS if words not in LEAVES]
FORMATS = [", ".join(kind.formats) for kind in (Command, CommandWithCsv, CommandWithYaml)]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("90m", 5400), ("2h", 7200), ("1d", 86400), ("1.5h", 5400), ("0s", 0)],
)
def test_a_duration_has_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["6", "", "h", "-1h", "2 h", "2hours", "1h30m", "1e3s"])
def test_nothing_else_is_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


def test_a_duration_has_an_end() -> None:
    assert parse_duration("3650d") == 315_360_000
    with pytest.raises(ValueError, match="longer than ten years"):
        parse_duration("3651d")


@pytest.mark.parametrize(("words", "arguments", "flag"), DURATIONS)
def test_a_bare_number_is_no_duration(
    words: tuple[str, ...], arguments: list[str], flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, *arguments, flag, "6"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: Invalid value for '{flag}': '6' is not a duration",
        "hint: write a duration such as 30s, 90m or 2h",
    ]


def test_every_duration_is_tried_and_none_has_its_unit_in_its_name() -> None:
    flags = [
        (words, parameter, option)
        for words, one in LEAVES.items()
        for parameter in one.params
        for option in parameter.opts
    ]
    timed = {(words, option) for words, one, option in flags if one.metavar == "DURATION"}
    assert timed == {(words, flag) for words, _, flag in DURATIONS}
    assert not [f for f in flags if f[2].endswith(("-hours", "-minutes", "-seconds"))]


def test_a_time_of_zero_is_refused_where_it_would_end_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["up", "x.yaml", "--max-time", "0s"]) == 2
    assert "'--max-time': '0s' is not a positive time" in capsys.readouterr().err


WRITING = [("sweep", "import"), ("sweep", "export")]  # -o is the file to write


@pytest.mark.parametrize("words", [w for w in LEAVES if w not in WRITING], ids=" ".join)
def test_a_wrong_format_names_the_right_ones(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    formats = [p for p in LEAVES[words].params if "--output" in p.opts]
    arguments = [p for p in LEAVES[words].params if p.param_type_name == "argument"]
    values = ["1" for argument in arguments if argument.required]
    code = run([*words, *values, "-o", "xml"])
    said = capsys.readouterr().err
    assert code == 2
    if formats:
        assert any(f"'xml' is not one of {names}\n" in said for names in FORMATS)
    else:
        assert "No such option: -o" in said


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_a_groups_help_is_never_cut(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "--help"]) == 0
    help_text = capsys.readouterr().out
    assert "..." not in help_text.replace("[ARGS]...", "")
    assert "…" not in help_text
    for name in COMMANDS[words].list_commands(None):
        assert f"  {name} " in help_text


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_a_sweep_is_always_positional(words: tuple[str, ...]) -> None:
    assert all("--sweep" not in parameter.opts for parameter in LEAVES[words].params)


def test_plain_output_has_one_name() -> None:
    plain = {words for words, one in LEAVES.items() for p in one.params if "--plain" in p.opts}
    assert plain == {("up",), ("run",), ("watch",)}
    assert not any("--wait" in p.opts for one in LEAVES.values() for p in one.params)


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"deployer {__version__}\n"
