"""Warm starts: a script does in a forked run what it does in one that is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.agent.warm_starts import Starts, start_parent

PROGRAMS = yaml.safe_load(Path(__file__).with_name("warm_programs.yaml").read_text())
# One of each kind; `make test-full` has all.
FEW = (
    *("main module", "arguments", "path", "environment", "streams", "modules of the project"),
    *("signals", "process group", "killed", "interrupted", "exit code", "exit with a text"),
    *("seeds differ", "numpy's seeds differ", "logging", "exit handlers", "buffering"),
    *("traceback", "traceback of an import", "a module over Python's own", "a package"),
    *("threads", "multiprocessing by spawn", "subprocess", "files left open"),
)
TRACEBACK = "Traceback (most recent call last):\n"
NAMES = [
    pytest.param(name, marks=[] if name in FEW else [pytest.mark.full], id=name)
    for name in PROGRAMS
]


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starts]:
    with start_parent(tmp_path_factory.mktemp("warm"), "import numpy") as made:
        yield made


@pytest.mark.parametrize("name", NAMES)
def test_a_warm_run_is_like_a_cold_one(starts: Starts, name: str) -> None:
    program = PROGRAMS[name]
    if isinstance(program, str):
        program = {"script": program}
    files = {"script.py": program.get("script", ""), **program.get("files", {})}
    for path, text in files.items():
        (starts.project / path).parent.mkdir(exist_ok=True)
        (starts.project / path).write_text(text)
    words = tuple(program.get("words", ["script.py"]))
    cold, warm = starts.run(words, starts.cold), starts.run(words, starts.warm)
    for path in files:
        (starts.project / path).unlink()
    if program.get("starts_over"):
        (starts.folder / "warm.cold").unlink()
        said, _, rest = warm[2].partition("\n")
        assert said.endswith("the run starts over with nothing preloaded")
        warm = (*warm[:2], rest)
    elif cold[0]:  # a traceback has our frames above the script's
        assert warm[2].endswith(cold[2].rpartition(TRACEBACK)[2])
        warm = (*warm[:2], cold[2])
    is_cold = program.get("cold") or program.get("starts_over")
    assert starts.start.startswith("cold: " if is_cold else "warm"), starts.start
    assert warm == cold
