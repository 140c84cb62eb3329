"""The sweep that a file of hyperparameter sets makes, and its sets given back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deployer.errors import ConfigError
from deployer.sweeps.configuration_list import JOB_ID, PARAMETER, build_list_config
from deployer.sweeps.set_files import (
    HyperparameterSets,
    build_sweep_config,
    check_sets_file,
    dump_sets,
    is_wrapped,
    list_sets,
    parse_sets,
)
from deployer.sweeps.sweep_file import dump_config, parse_sweep
from tests.sweeps.test_configuration_list import run_as_agent

SETS: tuple[dict[str, Any], ...] = ({"lr": 0.1, "batch_size": 32}, {"lr": 0.2, "batch_size": 64})


@pytest.mark.parametrize("wrapped", [True, False])
def test_the_sweep_runs_exactly_these_sets_and_gives_them_back(wrapped: bool) -> None:
    twice = (*SETS, SETS[0])
    config = build_sweep_config(
        HyperparameterSets(twice, wrapped), "sets.yml", "main.py", "acc", "maximize"
    )
    sweep = parse_sweep(dump_config(config), "sweep.yaml")
    assert (sweep.expected, sweep.metric_goal, sweep.warnings) == (3, "maximize", ())
    assert list_sets(sweep.config, "sweep.yaml") == list(twice)
    assert is_wrapped(sweep.config) is wrapped
    for name in ("again.yml", "again.json", "again.csv", "again.tsv"):
        again = parse_sets(dump_sets(list_sets(sweep.config, "x"), name, wrapped), name)
        assert (again.sets, again.wrapped) == (twice, wrapped and name[-2:] != "sv")


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
    with pytest.raises(ConfigError, match=r"runs read sets.yml, which is missing in"):
        check_sets_file(config, tmp_path, "sweep.yaml")
    (tmp_path / "sets.yml").write_text(dump_sets(SETS))
    check_sets_file(config, tmp_path, "sweep.yaml")
    (tmp_path / "sets.yml").write_text(dump_sets(SETS[::-1]))
    with pytest.raises(ConfigError, match=r"sweep.yaml: its sets differ from sets.yml"):
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
    (tmp_path / "sets.yml").write_text(dump_sets(SETS[:1]))
    with pytest.raises(ConfigError, match=r"its sets differ from sets.yml"):
        check_sets_file(healed, tmp_path, "x")


def test_any_grid_is_a_list_and_a_random_sweep_is_none() -> None:
    grid = {"method": "grid", "parameters": {"a": {"values": [1, 2]}, "b": {"value": "x"}}}
    assert is_wrapped(grid)
    assert list_sets(grid, "x") == [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}]
    with pytest.raises(ConfigError, match="method random draws its configurations") as raised:
        list_sets({**grid, "method": "random"}, "x.yaml")
    assert raised.value.hint
