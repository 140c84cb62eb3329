"""What a preloaded package makes at its import stays the parent's, and each run has its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.warm_starts import build_starts, start_parent

# A package of each kind of thing that a run must neither use, run nor delete.
GIVEN = """
import atexit, pathlib, random, tempfile, weakref
import numpy

own = tempfile.TemporaryDirectory("-given")
pathlib.Path(own.name, "kept").write_text("from the import")
atexit.register(own.cleanup)
pathlib.Path(own.name, "folder").mkdir()
drawn, chosen = random.Random(), random.Random(3)
arrays, fixed = numpy.random.default_rng(), numpy.random.default_rng(3)
legacy = numpy.random.RandomState()


class Thing:
    pass


thing = Thing()
weakref.finalize(thing, lambda: print("finalized", flush=True))


@atexit.register
def leave():
    print("left", flush=True)
"""
SCRIPT = """
import pathlib, given
before = sorted(one.name for one in pathlib.Path(given.own.name).iterdir())
made = pathlib.Path(given.own.name, "made")
assert not made.exists()
made.touch()
print(given.own.name, before)
print(given.drawn.random(), given.arrays.random(), given.legacy.random())
print(given.chosen.random(), given.fixed.random())
"""


def test_each_run_has_its_own_folder_and_random_numbers(tmp_path: Path) -> None:
    with start_parent(tmp_path, packages={"given": GIVEN}) as starts:
        said = [starts.run_script(SCRIPT) for _ in range(3)]
        assert starts.start == "warm"
    lines = [out.splitlines() for out, err in said]
    assert [len(one) for one in lines] == [3, 3, 3]  # no handler, no finalizer
    folders = [one[0].partition(" ")[0] for one in lines]
    assert [one[0].partition(" ")[2] for one in lines] == ["['folder', 'kept']"] * 3
    assert len({*folders}) == 3
    assert not any(Path(one).exists() for one in folders)
    drawn = [number for one in lines for number in one[1].split()]
    assert len({*drawn}) == 9
    assert len({one[2] for one in lines}) == 1  # the seed that the package chose
    parents = Path(folders[0].rpartition("-")[0])
    assert not parents.exists()
    # The parent, which has made them, runs and deletes them at its end.
    assert (starts.folder / "warm.log").read_text().splitlines() == ["left", "finalized"]


def test_a_run_that_starts_over_leaves_no_folder(tmp_path: Path) -> None:
    with start_parent(tmp_path, packages={"given": GIVEN}) as starts:
        (starts.project / "script.py").write_text(
            "import given; print(given.own.name, flush=True); import missing"
        )
        code, out, _ = starts.run(("script.py",), starts.warm)
        warm, cold = out.splitlines()[:2]
    assert (code, warm != cold) == (1, True)
    assert not Path(warm).exists()


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("kept = open('/etc/passwd')", "preloading has left /etc/passwd open"),
        ("import socket; kept = socket.socket()", "preloading has left socket:["),
        ("import tempfile; kept = tempfile.mkdtemp(prefix='kept-')", "preloading has made /"),
        (
            "import os, tempfile; kept = tempfile.mkstemp(prefix='kept-'); os.close(kept[0])",
            "preloading has made /",
        ),
        ("import subprocess as s; kept = s.Popen(['true'])", "preloading has started a process"),
        (
            "import multiprocessing; kept = multiprocessing.Lock()",
            "preloading has made a lock between processes",
        ),
    ],
    ids=["file", "socket", "folder", "temporary file", "process", "lock"],
)
def test_what_runs_would_share_keeps_them_cold(
    source: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "site-packages" / "given").mkdir(parents=True)
    (tmp_path / "site-packages" / "given" / "__init__.py").write_text(source)
    starts = build_starts(tmp_path, "print('done')", ("given",))
    starts.begin_cold()
    assert starts.run(("script.py",), starts.warm) == (0, "done\n", "")
    assert starts.start.startswith(f"cold: {reason}")
