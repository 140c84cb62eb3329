"""What earlier attempts of a run left on this machine, and how they are marked.

Every attempt has a folder `wandb/run-<time>-<run id>` in the folder of the agent that ran it; the
folders of all agents lie side by side.
"""

import contextlib
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..host.processes import holds_open, is_core, list_processes
from .wandb_file import LocalRun, read_exit_code, read_run

# Beside a `.wandb` file: its attempt was interrupted, so that its exit code means nothing.
INTERRUPTED_NAME = "deployer-interrupted"
SUPERSEDED_SUFFIX = ".superseded"
CORE_LOG = os.path.join("logs", "debug-core.log")
# What wandb-core logs as it starts, as its parent tells it to end, and as that has ended silently.
CORE_START = b"will exit if parent process dies"
TORN_DOWN = b"server teardown initiated"
LEFT_BEHIND = b"parent process exited"
QUIET_READS = 10  # more cores at a time than one user starts in a second


@dataclass(frozen=True)
class Leftovers:
    """The files of all attempts of one run here, oldest first.

    `exit_code` is the newest attempt's, None if it never came to its end or was interrupted.
    """

    paths: Sequence[str]
    exit_code: Optional[int]

    def read(self, after: int) -> LocalRun:
        """Read the rows after a step, and the newest summary. Later attempts prevail.

        10,000 rows take about a second.
        """
        rows: Dict[int, Dict[str, Any]] = {}
        newest = LocalRun()
        for path in self.paths:
            newest = read_run(path, after)
            rows.update(newest.rows)
        newest.rows = {step: row for step, row in rows.items() if step > after}
        return newest


def list_wandb_files(agents_folder: str, run_id: str) -> List[str]:
    """Return the `.wandb` files of a run, of all agents here, oldest attempt first."""
    found = []
    for agent in _names(agents_folder):
        runs = os.path.join(agents_folder, agent, "wandb")
        for name in _names(runs):
            path = os.path.join(runs, name, f"run-{run_id}.wandb")
            if name.startswith("run-") and os.path.exists(path):
                found.append((name, path))
    return [path for _, path in sorted(found)]


def _names(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def load_leftovers(agents_folder: str, run_id: str) -> Optional[Leftovers]:
    """Find what there is of a run, however long it was; None if there is nothing."""
    paths = list_wandb_files(agents_folder, run_id)
    if not paths:
        return None
    exit_code = None if _is_interrupted(paths[-1]) else read_exit_code(paths[-1])
    return Leftovers(paths, exit_code)


def note_interrupt(agents_folder: str, run_id: str) -> bool:
    """Note that a run's newest attempt is ended by us; False if it had ended by itself before."""
    paths = list_wandb_files(agents_folder, run_id)
    if not paths:
        return True
    # Read before the mark: a run that sees it keeps no outputs, so it must not count as finished.
    if read_exit_code(paths[-1]) is not None and not _is_interrupted(paths[-1]):
        return False
    with contextlib.suppress(OSError), open(_mark_of(paths[-1]), "w", encoding="utf-8"):
        pass
    return True


def is_interrupted(agents_folder: str, run_id: str) -> bool:
    """Tell whether a run's newest attempt here was ended by us."""
    return any(_is_interrupted(path) for path in list_wandb_files(agents_folder, run_id)[-1:])


def has_left_its_core(agents_folder: str, run_id: str) -> bool:
    """Tell whether a run's newest attempt here, which left no exit record, left its wandb-core.

    Else somebody has killed the core, and the trainer had to fail: nobody's exit code tells that.
    Cores that one user starts in the same second write into the same log, an agent's among them.
    """
    for path in list_wandb_files(agents_folder, run_id)[-1:]:
        log = os.path.realpath(os.path.join(os.path.dirname(path), CORE_LOG))
        with contextlib.suppress(OSError):
            text, living = _read_quiet(log)
            left, told = text.count(LEFT_BEHIND), text.count(TORN_DOWN)
            return left > 0 and left + told + living >= text.count(CORE_START)
    return False


def _read_quiet(log: str) -> Tuple[bytes, int]:
    """Return a log of cores and how many of them live, at a moment when none writes into it."""
    text, living = b"", 0
    for _ in range(QUIET_READS):
        with open(log, "rb") as file:
            text = file.read()
        cores = [process.id for process in list_processes() if is_core(process)]
        living = sum(holds_open(core, log) for core in cores)
        if os.stat(log).st_size == len(text):
            break
    return text, living


def supersede(agents_folder: str, run_id: str) -> None:
    """Put aside what was written before a run starts afresh: the server drops these rows too."""
    for path in list_wandb_files(agents_folder, run_id):
        with contextlib.suppress(OSError):
            os.rename(path, path + SUPERSEDED_SUFFIX)


def _is_interrupted(path: str) -> bool:
    return os.path.exists(_mark_of(path))


def _mark_of(path: str) -> str:
    return os.path.join(os.path.dirname(path), INTERRUPTED_NAME)
