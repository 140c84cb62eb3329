"""Files of hyperparameter sets: what is read, refused and doubted, and the sweep they make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deployer.errors import ConfigError, ConfigErrors
from deployer.sweeps.configuration_list import JOB_ID, PARAMETER, build_list_config
from deployer.sweeps.hyperparameter_sets import (
    HyperparameterSets,
    build_sweep_config,
    check_sets_file,
    dump_sets,
    list_sets,
    load_sets,
    parse_sets,
)
from deployer.sweeps.repeats import build_repeat_config
from deployer.sweeps.sweep_file import dump_config, parse_sweep
from tests.sweeps.test_configuration_list import run_as_agent

SETS: tuple[dict[str, Any], ...] = ({"lr": 0.1, "batch_size": 32}, {"lr": 0.2, "batch_size": 64})
FORMS = {
    "wrapped.yml": dump_sets(SETS),
    "plain.yaml": "- {lr: 0.1, batch_size: 32}\n- {lr: 0.2, batch_size: 64}\n",
    "plain.json": '[{"lr": 0.1, "batch_size": 32},\n\t{"lr": 0.2, "batch_size": 64}]',
    "wrapped.json": '[{"hyperparam_set": {"lr": 0.1, "batch_size": 32}},'
    ' {"hyperparam_set": {"lr": 0.2, "batch_size": 64}}]',
    "table.csv": "lr, batch_size\n0.1, 32\n\n2e-1,64\n",
}
REFUSED = {
    "a.yml": ("", "a.yml: there is no set in it"),
    "b.yml": ("[]", "b.yml: there is no set in it"),
    "c.yml": ("lr: 0.1", "c.yml: a mapping, not a list of sets"),
    "d.yml": ("just words", "d.yml: a str, not a list of sets"),
    "e.yml": ("- {lr: 1}\n- 3\n", "e.yml:2: [1]: 3 is not a mapping"),
    "f.yml": (
        "- hyperparam_set: {lr: 1}\n- {lr: 2}\n",
        "f.yml:2: [1]: a set without hyperparam_set",
    ),
    "g.yml": ("- hyperparam_set: {}\n", "g.yml:1: [0].hyperparam_set: an empty set"),
    "h.yml": ("- hyperparam_set:\n", "h.yml:1: [0].hyperparam_set: an empty set"),
    "i.yml": (
        "- lr: 1\n- lr:\n    deep: 2\n",
        "i.yml:2: [1].lr: a value inside a value",
    ),
    "j.yml": ("- sizes: [1, 2]\n", "j.yml:1: [0].sizes: a value inside a value"),
    "k.yml": ("- day: 2026-01-02\n", "k.yml:1: [0].day: 2026-01-02 cannot be sent"),
    "l.yml": ("- lr: .nan\n", "l.yml:1: [0].lr: nan cannot be sent"),
    "m.yml": ("- JOB_ID: 3\n", "m.yml:1: [0].JOB_ID: is the number of the set itself"),
    "n.yml": ("- 3: 3\n", "n.yml:1: [0].3: 3 is not a name"),
    "o.yml": ("- &a [*a]\n", "o.yml: an anchor contains itself"),
    "p.yml": ("- {lr: 1\n", "p.yml:2:1: unreadable YAML: a mapping without its end"),
    "a.json": ('[\n{"lr": 1}', "a.json:2:10: unreadable JSON: Expecting ',' delimiter"),
    "b.json": ('[{"lr": NaN}]', "b.json: [0].lr: nan cannot be sent"),
    "a.csv": ("lr\n", "a.csv: there is no set in it"),
    "b.csv": ("lr,b\n1,2\n1,2,3\n", "b.csv:3: 3 cells, and the header names 2"),
    "c.csv": ("lr,lr\n1,2\n", "c.csv:1: the column 'lr' is there twice"),
    "d.csv": ("lr,\n1,2\n", "d.csv:1: a column has no name"),
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
    error = raised.value
    errors = error.errors if isinstance(error, ConfigErrors) else (error,)
    assert [one.message for one in errors] == [said]
    assert all(one.hint for one in errors)


def test_every_complaint_is_raised_at_once() -> None:
    with pytest.raises(ConfigErrors) as raised:
        parse_sets("- {}\n- {lr: [1]}\n- 5\n", "x.yml")
    assert len(raised.value.errors) == 3


def test_what_is_doubtful_is_a_warning() -> None:
    text = (
        "- hyperparam_set: {lr: 1e-5, on: 1}\n"
        "- {hyperparam_set: {lr: 2}, comment: mine}\n"
        "- hyperparam_set: {lr: 2}\n"
    )
    with pytest.raises(ConfigErrors):
        parse_sets(text, "x.yml")  # `on` is no name
    found = parse_sets(text.replace(", on: 1", ""), "x.yml")
    assert [said.partition(" (")[0] for said in found.warnings] == [
        "x.yml:1: [0].hyperparam_set.lr: '1e-5' is text, not a number",
        "x.yml:2: [1].comment: is not in hyperparam_set and left out",
        "x.yml:3: [2]: set 3 is the same as set 2; both run",
    ]


def test_cells_of_a_table() -> None:
    text = '\ufeffa,b,c,d,e\n007,1_000,TRUE,"x, y",-.5\n,,,,9\n'
    found = parse_sets(text.lstrip("\ufeff"), "x.csv").sets
    assert found == ({"a": "007", "b": "1_000", "c": True, "d": "x, y", "e": -0.5}, {"e": 9})


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: no such file"):
        load_sets(tmp_path / "none.yml")
    (tmp_path / "binary.yml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not a text file in UTF-8"):
        load_sets(tmp_path / "binary.yml")
    (tmp_path / "excel.csv").write_bytes(b"\xef\xbb\xbflr\r\n1\r\n")
    assert load_sets(tmp_path / "excel.csv").sets == ({"lr": 1},)


@pytest.mark.parametrize("wrapped", [True, False])
def test_the_sweep_runs_exactly_these_sets_and_gives_them_back(wrapped: bool) -> None:
    twice = (*SETS, SETS[0])
    config = build_sweep_config(
        HyperparameterSets(twice, wrapped), "sets.yml", "main.py", "acc", "maximize"
    )
    sweep = parse_sweep(dump_config(config), "sweep.yaml")
    assert (sweep.expected, sweep.metric_goal, sweep.warnings) == (3, "maximize", ())
    assert list_sets(sweep.config, "sweep.yaml") == list(twice)
    assert parse_sets(dump_sets(list_sets(sweep.config, "x")), "again.yml").sets == twice


def test_a_script_gets_its_number_and_flags_only_if_it_reads_no_file(tmp_path: Path) -> None:
    show = "import json, os, sys\nprint(json.dumps([os.environ['JOB_ID'], *sys.argv[1:]]))\n"
    (tmp_path / "main.py").write_text(show)
    for wrapped, flags in ((True, []), (False, ["--lr=0.2", "--batch_size=64"])):
        found = HyperparameterSets(SETS, wrapped)
        config = build_sweep_config(found, "sets.yml", str(tmp_path / "main.py"), None, "minimize")
        value = config["parameters"][PARAMETER]["values"][1]
        command = [config["program"] if w == "${program}" else w for w in config["command"]]
        assert run_as_agent(command, tmp_path, {PARAMETER: {"value": value}}) == ["2", *flags]
        assert value[JOB_ID] == 2


def test_a_file_that_is_missing_or_was_edited_is_refused_before_runs_read_it(
    tmp_path: Path,
) -> None:
    found = HyperparameterSets(SETS, wrapped=True)
    config = build_sweep_config(found, "sets.yml", "main.py", None, "minimize")
    with pytest.raises(ConfigError, match=r"runs read sets.yml, and there is none in"):
        check_sets_file(config, tmp_path, "sweep.yaml")
    (tmp_path / "sets.yml").write_text(dump_sets(SETS))
    check_sets_file(config, tmp_path, "sweep.yaml")
    (tmp_path / "sets.yml").write_text(dump_sets(SETS[::-1]))
    with pytest.raises(ConfigError, match=r"sweep.yaml: its sets are not those of sets.yml"):
        check_sets_file(config, tmp_path, "sweep.yaml")
    plain = build_sweep_config(
        HyperparameterSets(SETS, wrapped=False), "sets.csv", "main.py", None, "minimize"
    )
    check_sets_file(plain, tmp_path, "sweep.yaml")  # flags say all


def test_a_healed_set_keeps_its_number(tmp_path: Path) -> None:
    config = build_sweep_config(
        HyperparameterSets(SETS, wrapped=True), "sets.yml", "main.py", None, "minimize"
    )
    missing = [{PARAMETER: config["parameters"][PARAMETER]["values"][1]}]
    healed = build_list_config(config, missing, "name", "why")
    assert healed["parameters"][PARAMETER]["values"] == [{JOB_ID: 2, **SETS[1]}]
    assert healed["command"] == config["command"]
    (tmp_path / "sets.yml").write_text(dump_sets(SETS))
    check_sets_file(healed, tmp_path, "the follow-up")
    again = build_repeat_config(config, missing[0], 3, "name", "why")
    check_sets_file(again, tmp_path, "the repeat")
    (tmp_path / "sets.yml").write_text(dump_sets(SETS[:1]))
    for one in (healed, again):
        with pytest.raises(ConfigError, match=r"its sets are not those of sets.yml"):
            check_sets_file(one, tmp_path, "x")


def test_any_grid_is_a_list_and_a_random_sweep_is_none() -> None:
    grid = {"method": "grid", "parameters": {"a": {"values": [1, 2]}, "b": {"value": "x"}}}
    assert list_sets(grid, "x") == [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}]
    with pytest.raises(ConfigError, match="method random draws its configurations") as raised:
        list_sets({**grid, "method": "random"}, "x.yaml")
    assert raised.value.hint
