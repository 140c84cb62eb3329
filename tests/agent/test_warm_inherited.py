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


# Each line is the same in every cold run, or never the same.
CHOSEN = """
import copy, random
import numpy

random.seed(42)
copied = copy.copy(random.Random(5))
restored = random.Random()
restored.setstate(random.Random(6).getstate())
large = numpy.random.default_rng(0x2A8F53D6A8F9E1B4C7D05F60718)
parent = numpy.random.default_rng()
"""
DRAW = """
import given, random
print(random.random(), given.copied.random(), given.restored.random(), given.large.random())
print(given.parent.spawn(1)[0].random())
"""


def test_what_a_package_seeds_stays_and_what_it_does_not_differs(tmp_path: Path) -> None:
    with start_parent(tmp_path, packages={"given": CHOSEN}) as starts:
        (starts.project / "script.py").write_text(DRAW)
        cold = starts.run(("script.py",), starts.cold)[1].splitlines()
        warm = [starts.run_script(DRAW)[0].splitlines() for _ in range(2)]
        assert starts.start == "warm"
    assert [one[0] for one in warm] == [cold[0]] * 2
    assert len({cold[1], *(one[1] for one in warm)}) == 3


LEFT = """
import atexit, os, weakref

class Thing:
    pass

kept = Thing()
close = weakref.finalize(kept, print, "closed")
os.environ.pop("REMOVED", None)
own = atexit.register
def register(*args, **kwargs):
    return own(*args, **kwargs)
atexit.register = register
"""


def test_what_a_package_sets_up_stays_in_a_run(tmp_path: Path) -> None:
    script = "import atexit, given, os; print(atexit.register is given.register, "
    script += "'REMOVED' in os.environ); given.close()"
    with start_parent(tmp_path, packages={"given": LEFT}, environment={"REMOVED": "1"}) as starts:
        assert starts.run_script(script) == ("True False\nclosed\n", "")
        assert starts.start == "warm"


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
            "preloading has made memory that processes share",
        ),
        (
            "import mmap; kept = mmap.mmap(-1, 64)",
            "preloading has made memory that processes share",
        ),
        (
            "import tempfile; kept = tempfile.NamedTemporaryFile(delete=False); kept.close()",
            "preloading has made /",
        ),
        (
            "import pathlib, tempfile; own = tempfile.TemporaryDirectory()\n"
            "PATH = pathlib.Path(own.name)",
            "preloading keeps the name of a temporary folder in given.PATH",
        ),
        (
            "import os, tempfile; own = tempfile.TemporaryDirectory()\n"
            "os.environ['OWN'] = own.name",
            "preloading keeps the name of a temporary folder in OWN",
        ),
        (
            "import os; os.environ.setdefault('WANDB_NAME', 'none')",
            "preloading sets WANDB_NAME, which is the run's own",
        ),
        ("raise SystemExit(3)", "given cannot be preloaded: SystemExit(3)"),
    ],
    ids=[
        *("file", "socket", "folder", "temporary file", "process", "lock", "memory"),
        *("file to keep", "path", "variable", "own variable", "exit"),
    ],
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
