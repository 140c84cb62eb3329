"""The README shows what was seen: picture, sweep file and output are those of one run."""

from __future__ import annotations

import re

import yaml

from tests.docs.pictures import LIVE, ROOT, SWEEP_FILE, build_svg, draw

README = (ROOT / "README.md").read_text()
[SWEEP] = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
OUTPUT = re.findall(r"```text\n(.*?)```", README, re.DOTALL)[-1].splitlines()


def test_the_recorded_run_looks_as_in_the_picture() -> None:
    assert LIVE.read_text() == build_svg(), "python -m tests.docs.pictures draws it again"


def test_the_output_is_that_of_the_recorded_run() -> None:
    drawn = [line.rstrip() for line in draw(200).export_text().splitlines()]
    *lines, page = (line for line in OUTPUT if line != "...")
    assert [line for line in lines if line not in drawn] == []
    assert page.startswith("results page: http://127.0.0.1:")


def test_the_sweep_file_is_whole() -> None:
    file = yaml.safe_load(SWEEP_FILE.read_text())
    del file["description"]
    assert yaml.safe_load(SWEEP) == file
