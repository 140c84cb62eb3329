"""Configurations in words and columns."""

from __future__ import annotations

from deployer.sweeps.results import Row
from deployer.sweeps.run_rows import MOST_PARAMETERS, describe_configuration, list_varying


def make_row(**parameters: object) -> Row:
    return Row(None, "r", "t", "finished", 1.0, dict(parameters), None, None)


def test_what_is_the_same_in_all_runs_gets_no_column() -> None:
    many = [{"data": "digits", "lr": lr, **more} for lr, more in ((1, {}), (2, {"decay": 0.1}))]
    assert list_varying(many) == ["lr", "decay"]
    assert list_varying(many[:1]) == ["data", "lr"]
    assert list_varying([{"flag": True}, {"flag": 1}]) == ["flag"]
    assert list_varying([]) == []


def test_a_configuration_is_named_in_full_unless_it_is_endless() -> None:
    row = make_row(lr=0.1, optimizer={"name": "sgd"}, text="1", nothing=None)
    assert describe_configuration(row) == (
        'lr=0.1, optimizer={"name": "sgd"}, text="1", nothing=null'
    )
    assert describe_configuration(make_row(hf_token="x")) == "hf_token=REDACTED"
    assert describe_configuration(make_row()) == "no parameters"
    same = {f"p{n}": n for n in range(MOST_PARAMETERS)}
    rows = [make_row(**same, seed=seed) for seed in (1, 2)]
    assert describe_configuration(rows[1], rows) == "seed=2"
    said = describe_configuration(rows[1])
    assert said.startswith("p0=0, ")
    assert said.endswith(f"p{MOST_PARAMETERS - 1}={MOST_PARAMETERS - 1}, and 1 more")
