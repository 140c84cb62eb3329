"""What goes to stdout and stderr, and in which form."""

from __future__ import annotations

import csv
import io
import json
import math
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

import pytest

from deployer.__main__ import wants_json
from deployer.cli.output.render import Table, emit, say, show_error, show_log_line, to_plain
from deployer.cli.shell.groups import COMMANDS
from deployer.errors import ConfigError, WandbError
from deployer.text import format_parameter, format_seconds, format_value


def test_json_is_strict_whatever_a_metric_is(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"nan": math.nan, "inf": [math.inf, 1], "path": Path("a"), "words": ("b", None)}, "json")
    assert json.loads(capsys.readouterr().out) == {
        "nan": None,
        "inf": [None, 1],
        "path": "a",
        "words": ["b", None],
    }
    assert to_plain(True) is True


def test_json_is_ascii_even_of_half_a_character(capsys: pytest.CaptureFixture[str]) -> None:
    values = ["\ud800", "é😀\u2028", 2**70, MappingProxyType({"a": (1,)}), ConfigError]
    for part in (values, values[1:]):
        emit(part, "json")
        text = capsys.readouterr().out
        assert text.isascii()
        assert json.loads(text) == to_plain(part)


def test_csv_keeps_lists_in_one_cell(capsys: pytest.CaptureFixture[str]) -> None:
    emit(None, "csv", Table(["a", "b", "c"], [[1, [2, "x,y"], None]]))
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row == {"a": "1", "b": '[2, "x,y"]', "c": ""}


def test_no_name_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = "a\x1b[31mred\x1b]0;title\x07\x1b[2Jb\nc\x08\x9b2J\u202ed"
    emit(None, "table", Table([name, "VALUE"], [[name, 1]]))
    say(f"failed: {name}")
    told = capsys.readouterr()
    shown = "aredb\\nc\\x08\\x9b2J\\u202ed"
    assert [line.split() for line in told.out.splitlines()][-1] == [shown, "1"]
    assert told.out.count(shown) == 2
    assert told.err == f"failed: {shown}\n".replace("\\n", "\n", 1)


def test_a_spreadsheet_computes_nothing_of_csv(capsys: pytest.CaptureFixture[str]) -> None:
    texts = ['=HYPERLINK("x")', "+1", "-x", "@y", "\tz", "plain", "a=b"]
    emit(None, "csv", Table(["=a", "b"], [[text, -1.5] for text in texts]))
    heads, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    assert heads == ["'=a", "b"]
    assert [first for first, _ in rows] == [*(f"'{text}" for text in texts[:5]), "plain", "a=b"]
    assert {second for _, second in rows} == {"-1.5"}


def test_a_table_in_a_pipe_is_neither_cut_nor_coloured(capsys: pytest.CaptureFixture[str]) -> None:
    emit(
        None, "table", Table(["NAME", "VALUE"], [["n" * 300, 0.123456789], ["[red]x[/red]", None]])
    )
    out = capsys.readouterr().out
    assert "n" * 300 in out
    assert "0.123457" in out
    assert "[red]x[/red]" in out
    assert "\x1b" not in out
    assert all(line == line.rstrip() for line in out.splitlines())


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_cuts_texts_and_no_numbers(width: int) -> None:
    columns = ["RANK", "RUN", "validation_accuracy", "learning_rate", "NOTE"]
    rows = [[1, "abcdefgh-12", 0.987654321, 1e-05, "n" * 50]]
    table = Table(columns, rows)
    assert table.least_width < 80
    header, row = ("".join(text for text, _ in line).rstrip() for line in table.lay_out(width))
    assert len(header) <= max(width, table.least_width)
    assert header.split() == columns
    assert row.split()[:-1] == ["1", "abcdefgh-12", "0.987654", "1e-05"]
    assert row.endswith("nnn…")


def test_the_first_column_is_never_cut() -> None:
    rows = [["user/uncategorized/ab12cd34", "~/a/folder/of/somebody", "a long title " * 5]]
    head, row = Table(["SWEEP", "FOLDER", "TITLE"], rows).lay_out(60)
    assert row[0][0].strip() == rows[0][0]
    assert sum(len(text) for text, _ in row) <= 60
    assert [text.strip() for text, _ in head[::2]] == ["SWEEP", "FOLDER", "TITLE"]


def test_an_error_has_one_line_for_what_and_one_for_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_error(WandbError("said no", "try this"), as_json=False)
    show_error(WandbError("said no"), as_json=False)
    assert capsys.readouterr().err == "error: said no\nhint: try this\nerror: said no\n"
    both = ConfigError.join([ConfigError("f: a", "wrong", "mend"), ConfigError("f: b", "worse")])
    show_error(both, as_json=False)
    assert capsys.readouterr().err == "error: f: a: wrong\nhint: mend\nerror: f: b: worse\n"
    show_error(both, as_json=True)
    assert json.loads(capsys.readouterr().err)["error"] == {
        "code": "config",
        "message": "f: a: wrong\nf: b: worse",
        "hint": "mend",
        "errors": [
            {"message": "f: a: wrong", "hint": "mend"},
            {"message": "f: b: worse", "hint": ""},
        ],
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0.4, "0 s"), (89, "89 s"), (120, "2 min"), (5400, "1 h 30 min")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert format_seconds(seconds) == text


def test_values() -> None:
    assert [format_value(v) for v in (None, True, 1, 0.1, math.nan, [1])] == [
        "",
        "true",
        "1",
        "0.1",
        "nan",
        "[1]",
    ]


def test_a_log_line_in_a_pipe_has_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    link = "\x1b]8;;http://x\x1b\\page\x1b]8;;\x1b\\"
    show_log_line(f"a1 | \x1b[1;34mwandb\x1b[0m: \x1b[2Kdone [1] {link}")
    assert capsys.readouterr().out == "a1 | wandb: done [1] page\n"


def test_parameters_of_other_kinds_look_otherwise() -> None:
    values = (1, "1", 1.0, "1e-5", None, "null", "", True, "true", "adam")
    assert [format_parameter(value) for value in values] == [
        "1",
        '"1"',
        "1",
        '"1e-5"',
        "null",
        '"null"',
        '""',
        "true",
        '"true"',
        "adam",
    ]


@pytest.mark.parametrize("form", ["-o json", "-ojson", "--output json", "--output=json"])
def test_json_is_asked_for_in_every_spelling(form: str) -> None:
    assert wants_json(["results", *form.split(), "x"])
    assert not wants_json(["results", "-o", "table"])


def test_every_command_has_its_module() -> None:
    for place, text in COMMANDS.values():
        module, _, app = place.partition(":")
        assert hasattr(import_module(f"deployer.cli.{module}"), app or "app")
        assert text.endswith(".")
