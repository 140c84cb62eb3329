"""A warm parent that cannot be forked, fails, hangs or is killed costs a run nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from deployer.agent.host.processes import list_marked, reap
from deployer.agent.settings import AgentSettings
from deployer.agent.warm.parent import WarmParent
from tests.agent.conftest import wait_for
from tests.agent.warm_starts import Starts, build_starts, start_parent

# Counts its starts, and says whether its package was there at once.
COUNTING = """
import sys
print('begun', 'given' in sys.modules, flush=True)
import given
"""


def get_parent(starts: Starts) -> int:
    """Return the parent's process id."""
    [parent] = [p.id for p in list_marked(str(starts.folder)) if p.name == "warm-parent"]
    return parent


def test_an_agent_says_why_it_has_no_parent(tmp_path: Path) -> None:
    (tmp_path / "start").write_text("warm")  # of an earlier agent
    parent = WarmParent(AgentSettings("e/p/s", "http://127.0.0.1:1", "a1", str(tmp_path)))
    assert parent.prepare(os.environ, "train.py") == dict(os.environ)
    assert parent.read_start() == ""
    once = AgentSettings("e/p/s", "http://127.0.0.1:1", "a1", str(tmp_path), warm=True, count=1)
    parent = WarmParent(once)
    assert parent.prepare(os.environ, "train.py") == dict(os.environ)
    assert parent.read_start() == "cold: the agent takes one run"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("1 / 0", "given cannot be preloaded: ZeroDivisionError('division by zero')"),
        (
            "import threading, time\n"
            "threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
            "preloading has left 1 more threads",
        ),
    ],
)
def test_a_process_that_must_not_be_forked_is_no_parent(
    source: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site-packages" / "given").mkdir(parents=True)
    (tmp_path / "site-packages" / "given" / "__init__.py").write_text(source)
    starts = build_starts(tmp_path, "print('done')", ("given",))
    starts.parent.keep_running(())
    wait_for((starts.folder / "warm.cold").exists, "the parent's end")
    assert starts.run(("script.py",), starts.warm) == (0, "done\n", "")
    assert starts.start == f"cold: {reason}"
    starts.parent.keep_running(())
    assert starts.parent.read_start() == f"cold: {reason}"
    wait_for(lambda: not [reap(), *list_marked(str(starts.folder))][1:], "the parent's end")


def test_a_parent_that_still_preloads_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begun = tmp_path / "begun"
    (tmp_path / "site-packages" / "given").mkdir(parents=True)
    (tmp_path / "site-packages" / "given" / "__init__.py").write_text(
        f"import pathlib, time; pathlib.Path({str(begun)!r}).touch(); time.sleep(3600)"
    )
    starts = build_starts(tmp_path, "", ("given",))
    starts.parent.keep_running(())
    wait_for(begun.exists, "the import")
    starts.end()
    assert not (starts.folder / "warm.starting").exists()


def test_a_run_that_fails_in_an_import_starts_over_cold_once(tmp_path: Path) -> None:
    script = COUNTING + "import missing"
    with start_parent(tmp_path, packages={"given": ""}) as starts:
        (starts.project / "script.py").write_text(script)
        code, out, err = starts.run(("script.py",), starts.warm)
        assert (code, out) == (1, "begun True\nbegun False\n")
        reason = (
            "an import failed in a warm run: ModuleNotFoundError(\"No module named 'missing'\")"
        )
        assert err.startswith(
            f"deployer: {reason}; the run starts over with nothing preloaded\nTraceback"
        )
        assert err.count("Traceback") == 1
        code, out, err = starts.run(("script.py",), starts.warm)
        assert (code, out, starts.start) == (1, "begun False\n", f"cold: {reason}")
        assert "deployer: " not in err
        starts.parent.keep_running(())
        assert starts.parent.read_start() == f"cold: {reason}"


KILLING = """
import os, pathlib, signal, sys
armed = pathlib.Path(__file__).with_name("armed")
def kill():
    if armed.exists():
        os.kill(os.getpid(), signal.SIGKILL)
os.register_at_fork({when}=kill)
"""


@pytest.mark.parametrize("when", ["before", "after_in_parent"])
def test_a_parent_that_is_killed_at_the_fork_leaves_one_cold_run(when: str, tmp_path: Path) -> None:
    with start_parent(tmp_path, packages={"given": KILLING.format(when=when)}) as starts:
        armed = tmp_path / "site-packages" / "given" / "armed"
        (starts.project / "script.py").write_text(COUNTING)
        parent = get_parent(starts)
        armed.touch()
        code, out, err = starts.run(("script.py",), starts.warm)
        # A forked run may have begun, and dies with its parent.
        assert (code, out.removeprefix("begun True\n"), err) == (0, "begun False\n", "")
        assert starts.start == "cold: the parent has ended"
        armed.unlink()
        starts.parent.keep_running(reap())
        wait_for(starts.serves, "another parent")
        assert get_parent(starts) != parent
        assert starts.run(("script.py",), starts.warm) == (0, "begun True\n", "")


@pytest.mark.full
def test_a_parent_that_is_stopped_is_given_up(tmp_path: Path) -> None:
    with start_parent(tmp_path, packages={"given": ""}) as starts:
        (starts.project / "script.py").write_text(COUNTING)
        os.kill(get_parent(starts), signal.SIGSTOP)
        assert starts.run(("script.py",), starts.warm) == (0, "begun False\n", "")
        assert starts.start == "cold: the parent does not answer"
        starts.parent.keep_running(reap())
        wait_for(starts.serves, "another parent")
        # One that is stopped by its run, and so does not report the run's end.
        stopping = "import os, signal; os.kill(os.getppid(), signal.SIGSTOP); raise SystemExit(7)"
        (starts.project / "script.py").write_text(f"{COUNTING}{stopping}")
        assert starts.run(("script.py",), starts.warm) == (7, "begun True\n", "")
        assert starts.start == "warm"


CHANGED = "import given, os; print(os.environ['SET_AT_IMPORT'])"


def test_what_an_import_sets_in_the_environment_is_set_in_a_run(tmp_path: Path) -> None:
    source = "import os; os.environ['SET_AT_IMPORT'] = '1'"
    with start_parent(tmp_path, packages={"given": source}) as starts:
        assert starts.run_script(CHANGED) == ("1\n", "")
        assert starts.start == "warm"
        (tmp_path / "site-packages" / "added").mkdir()
        assert starts.run_script(CHANGED) == ("1\n", "")
        assert starts.start == "cold: packages have changed"


def test_another_affinity_or_limit_starts_cold(tmp_path: Path) -> None:
    mine = os.sched_getaffinity(0)
    with start_parent(tmp_path, packages={"given": ""}) as starts:
        starts.warm["OMP_NUM_THREADS"] = "3"
        starts.run_script("import given")
        assert starts.start == "cold: another environment"
        del starts.warm["OMP_NUM_THREADS"]
        os.sched_setaffinity(0, {min(mine)})
        try:
            out = starts.run_script("import os; print(len(os.sched_getaffinity(0)))")
        finally:
            os.sched_setaffinity(0, mine)
        assert out == ("1\n", "")
        assert starts.start == ("warm" if len(mine) == 1 else "cold: another CPU affinity")
