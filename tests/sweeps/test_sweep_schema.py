"""The JSON schema of sweep files: made from the tables of keys, and no stricter than the check."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

from deployer.sweeps.validation.json_schema import PATH, build_schema, format_schema
from tests.golden_files import UPDATE
from tests.project_files import list_sweeps
from tests.sweeps.test_parameters import QUARTILES
from tests.sweeps.test_sweep_file import GOOD

VALIDATOR = Draft7Validator(build_schema())
EXAMPLES = list_sweeps() + list_sweeps("recipes/*/sweep*.yaml")
LINE = "# yaml-language-server: $schema="


def test_the_schema_is_that_of_the_tables() -> None:
    if UPDATE:
        PATH.write_text(format_schema())
    assert PATH.read_text() == format_schema()
    Draft7Validator.check_schema(build_schema())


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_our_sweeps_fit_it(file: Path) -> None:
    assert [e.message for e in VALIDATOR.iter_errors(yaml.safe_load(file.read_text()))] == []


@pytest.mark.parametrize("file", list_sweeps(), ids=lambda file: file.name)
def test_editors_find_it_from_the_examples(file: Path) -> None:
    (line,) = [line for line in file.read_text().splitlines() if line.startswith(LINE)]
    assert (file.parent / line.removeprefix(LINE)).resolve() == PATH


@pytest.mark.parametrize("form", QUARTILES)
def test_every_form_of_a_parameter_fits_it(form: str) -> None:
    config = {
        **yaml.safe_load(GOOD),
        "parameters": {"x": QUARTILES[form][0], "m": {"parameters": {"y": QUARTILES[form][0]}}},
    }
    assert [e.message for e in VALIDATOR.iter_errors(config)] == []
