"""Files of hyperparameter sets: what is read, refused and doubted, and what is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deployer.errors import ConfigError
from deployer.sweeps.set_files import HyperparameterSets, dump_sets, load_sets, parse_sets

SETS: tuple[dict[str, Any], ...] = ({"lr": 0.1, "batch_size": 32}, {"lr": 0.2, "batch_size": 64})
FORMS = {
    "wrapped.yml": dump_sets(SETS),
    "plain.yaml": "- {lr: 0.1, batch_size: 32}\n- {lr: 0.2, batch_size: 64}\n",
    "plain.json": '[{"lr": 0.1, "batch_size": 32},\n\t{"lr": 0.2, "batch_size": 64}]',
    "wrapped.json": '[{"hyperparam_set": {"lr": 0.1, "batch_size": 32}},'
    ' {"hyperparam_set": {"lr": 0.2, "batch_size": 64}}]',
    "table.csv": "lr, batch_size\n0.1, 32\n\n2e-1,64\n",
    "excel.csv": "lr;batch_size;;\r\n0.1;32;;\r\n0.2;64;;\r\n;;;\r\n",
    "semicolons.CSV": "lr;batch_size\n.1;32\n.2;64\n",
    "tabs.tsv": '"lr"\tbatch_size\n0.1\t32\n0.2\t"64"\n',
}
REFUSED = {
    "a.yml": ("", "a.yml: it has no sets"),
    "b.yml": ("[]", "b.yml: it has no sets"),
    "c.yml": ("lr: 0.1", "c.yml: not a list of sets"),
    "d.yml": ("just words", "d.yml: not a list of sets"),
    "e.yml": ("- {lr: 1}\n- 3\n", "e.yml:2: [1]: 3 is not a mapping"),
    "f.yml": (
        "- hyperparam_set: {lr: 1}\n- {lr: 2}\n",
        "f.yml:2: [1].hyperparam_set: has no values",
    ),
    "g.yml": ("- hyperparam_set: {}\n", "g.yml:1: [0].hyperparam_set: has no values"),
    "h.yml": ("- hyperparam_set:\n", "h.yml:1: [0].hyperparam_set: has no values"),
    "i.yml": (
        "- lr: 1\n- lr:\n    deep: 2\n",
        "i.yml:2: [1].lr: a value inside a value",
    ),
    "j.yml": ("- sizes: [1, 2]\n", "j.yml:1: [0].sizes: a value inside a value"),
    "k.yml": ("- day: 2026-01-02\n", "k.yml:1: [0].day: 2026-01-02 cannot be sent"),
    "l.yml": ("- lr: .nan\n", "l.yml:1: [0].lr: nan cannot be sent"),
    "m.yml": ("- JOB_ID: 3\n", "m.yml:1: [0].JOB_ID: 'JOB_ID' is a reserved name"),
    "n.yml": ("- 3: 3\n", "n.yml:1: [0].3: 3 is not a name"),
    "o.yml": ("- &a [*a]\n", "o.yml:1: [0]: [[...]] is not a mapping"),
    "p.yml": ("- {lr: 1\n", "p.yml:2:1: unreadable YAML: a mapping without its closing brace"),
    "a.json": ('[\n{"lr": 1}', "a.json:2:10: unreadable JSON: Expecting ',' delimiter"),
    "b.json": ('[{"lr": NaN}]', "b.json:1: [0].lr: nan cannot be sent"),
    "q.yml": ("- {lr: 1, lr: 2}\n", "q.yml:1: [0].lr: is written twice"),
    "r.yml": ('- {"": 1}\n', "r.yml:1: [0].: '' cannot be the name of a flag"),
    "s.yml": ("- {--lr: 1}\n", "s.yml:1: [0].--lr: '--lr' cannot be the name of a flag"),
    "t.yml": ("- {a b: 1}\n", "t.yml:1: [0].a b: 'a b' cannot be the name of a flag"),
    "u.yml": ("- {a=b: 1}\n", "u.yml:1: [0].a=b: 'a=b' cannot be the name of a flag"),
    "v.yml": (
        "- configuration: 3\n",
        "v.yml:1: [0].configuration: 'configuration' is a reserved name",
    ),
    "w.yml": ('- lr: "\\0"\n', "w.yml:1: [0].lr: \0 cannot be sent"),
    "x.yml": ("lr,batch\n1,2\n", "x.yml: not a list of sets"),
    "y.yml": ("- hyperparam_set: 0\n", "y.yml:1: [0].hyperparam_set: has no values"),
    "z.yml": (
        '- hyperparam_set: {"a\\tb": 0}\n',
        "z.yml:1: [0].hyperparam_set.'a\\tb': 'a\\tb' cannot be the name of a flag",
    ),
    "c.json": ('[\n{"lr": 1,\n\t"lr": 2}]', "c.json:3: [0].lr: is written twice"),
    "d.json": (
        f"[{'9' * 5000}]",
        "d.json: unreadable JSON: Exceeds the limit (4300 digits) for "
        "integer string conversion: value has 5000 digits; use "
        "sys.set_int_max_str_digits() to increase the limit",
    ),
    "e.json": (
        "[" * 100_000,
        "e.json: unreadable JSON: maximum recursion depth exceeded while decoding a JSON array "
        "from a unicode string",
    ),
    "a.csv": ("lr\n", "a.csv: it has no sets"),
    "e.csv": ("", "e.csv: it has no sets"),
    "f.csv": (" \n,,\n", "f.csv: it has no sets"),
    "g.csv": ("a;b\n1;2\n3\n", "g.csv:3: 1 cell, but the header has 2"),
    "h.csv": ("a;b,c\n1;2,3\n", "h.csv:1: 'a;b' cannot be the name of a flag"),
    "i.csv": ('a,b\n1,"2\n3,4\n', "i.csv:2: cannot be read from here on: unexpected end of data"),
    "j.csv": ('a,b\n"x\ny",2\n,\n1,2,3\n', "j.csv:5: 3 cells, but the header has 2"),
    "k.csv": ("lr,1e999\n1e999,2\n", "k.csv:2: [0].lr: inf cannot be sent"),
    "n.csv": ("a\0\n1\n2\n", "n.csv:1: 'a\\x00' cannot be the name of a flag"),
    "o.csv": ("\nlr,JOB_ID\n1,2\n3,4\n", "o.csv:2: 'JOB_ID' is a reserved name"),
    "m.csv": ("a|b\t--c\n1\t2\n", "m.csv:1: '--c' cannot be the name of a flag"),
    "b.csv": ("lr,b\n1,2\n1,2,3\n", "b.csv:3: 3 cells, but the header has 2"),
    "c.csv": ("lr,lr\n1,2\n", "c.csv:1: the column 'lr' appears twice"),
    "d.csv": ("lr,\n1,2\n", "d.csv:2: 2 cells, but the header has 1"),
    "l.csv": ("lr,,b\n1,2,3\n", "l.csv:1: '' cannot be the name of a flag"),
}


@pytest.mark.parametrize("place", FORMS)
def test_each_form_is_read_alike(place: str) -> None:
    found = parse_sets(FORMS[place], place)
    assert found == HyperparameterSets(SETS, place.startswith("wrapped"))


@pytest.mark.parametrize("place", REFUSED)
def test_odd_files_are_refused_with_place_and_hint(place: str) -> None:
    text, said = REFUSED[place]
    with pytest.raises(ConfigError) as raised:
        parse_sets(text, place)
    assert [one.text for one in raised.value.findings] == [said]
    assert raised.value.hint


def test_every_complaint_is_raised_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_sets("- {}\n- {lr: [1]}\n- 5\n", "x.yml")
    assert len(raised.value.findings) == 3


def test_what_is_doubtful_is_a_warning() -> None:
    text = (
        "- hyperparam_set: {lr: 1e-5, on: 1}\n"
        "- {hyperparam_set: {lr: 2}, comment: mine}\n"
        "- hyperparam_set: {lr: 2}\n"
    )
    with pytest.raises(ConfigError):
        parse_sets(text, "x.yml")  # `on` is no name
    found = parse_sets(text.replace(", on: 1", ""), "x.yml")
    assert [said.partition(" (")[0] for said in found.warnings] == [
        "x.yml:1: [0].hyperparam_set.lr: '1e-5' is text, not a number",
        "x.yml:2: [1]: comment is outside hyperparam_set and ignored",
        "x.yml:3: [2]: set 3 is the same as set 2; both run",
    ]
    assert parse_sets("- {a: 1, b: 2}\n- {a: 1, bb: 2}\n", "x.yml").warnings == (
        "x.yml:1: [0]: has no bb, unlike other sets, so the script's default applies",
    )


def test_cells_of_a_table() -> None:
    text = 'a,b,c,d,e\n007,1_000,TRUE,"x, y",-.5\n,,,,9\n'
    found = parse_sets(text, "x.csv").sets
    assert found == ({"a": "007", "b": "1_000", "c": True, "d": "x, y", "e": -0.5}, {"e": 9})
    numbers = parse_sets("lr;b\n0,5;1\n1.000,5;2\n", "x.csv")
    assert numbers.sets == ({"lr": "0,5", "b": 1}, {"lr": "1.000,5", "b": 2})
    assert numbers.warnings == (
        "x.csv:2: [0]: '0,5' is text, not a number (write numbers like 1234.5)",
    )
    long = "9" * 5000
    assert parse_sets(f"a\n{long}\n", "x.csv").sets == ({"a": long},)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: no such file"):
        load_sets(tmp_path / "none.yml")
    (tmp_path / "binary.yml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not a UTF-8 text file"):
        load_sets(tmp_path / "binary.yml")
    (tmp_path / "excel.csv").write_bytes(b"\xef\xbb\xbflr\r\n1\r\n")
    assert load_sets(tmp_path / "excel.csv").sets == ({"lr": 1},)
    (tmp_path / "unicode.tsv").write_bytes("lr\tname\r\n1\tä\r\n".encode("utf-16"))
    with pytest.raises(ConfigError, match="not a UTF-8 text file") as raised:
        load_sets(tmp_path / "unicode.tsv")
    assert "as CSV UTF-8" in raised.value.hint


def test_the_script_reads_the_names_of_its_sets_itself() -> None:
    sets = parse_sets("- hyperparam_set: {learning rate: 1, --x: 2}\n", "x.yml").sets
    assert sets == ({"learning rate": 1, "--x": 2},)


@pytest.mark.parametrize("value", ["5", "true", "", " x", "x\ry", None, [1]])
def test_a_table_refuses_what_it_would_give_back_otherwise(value: object) -> None:
    sets = [{"lr": 1e-05, "odd": value}]
    with pytest.raises(ConfigError, match="a table cannot hold odd: ") as raised:
        dump_sets(sets, "x.csv")
    assert raised.value.hint
    for name in ("x.json", "x.yaml") if value != [1] else ():
        assert parse_sets(dump_sets(sets, name), name).sets == tuple(sets)


def test_a_table_keeps_numbers_texts_and_missing_keys() -> None:
    sets = (
        {"a": 1e22, "b": 'x, "y"\nz', "comma": "0,5"},
        {"a": True, "c": -5, "zeros": "007"},
        {"c": 10**30},
    )
    for name in ("x.csv", "x.tsv"):
        found = parse_sets(dump_sets(sets, name), name).sets
        assert found == sets
        assert [type(one["a"]) for one in found[:2]] == [float, bool]
