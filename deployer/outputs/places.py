"""The outputs of a sweep's runs: their possible locations, the selection, and copying."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from deployer.config.project import Project
from deployer.data.copy import Progress, copy
from deployer.data.store import Entry, Store
from deployer.errors import ConfigError, SweepFailed
from deployer.executors.registry import find_executor
from deployer.model import Run, SweepPath
from deployer.outputs.stores import ArtifactStore, RunStore, SavedFiles, SharedVolume, open_run_here
from deployer.sweeps.rerun import list_family
from deployer.sweeps.results import Results, is_done
from deployer.wandb_api.artifacts import RunArtifact, list_artifacts
from deployer.wandb_api.client import Client
from deployer.wandb_api.model import Snapshot
from deployer.wandb_api.server import Server

# In a subfolder of a run's own outputs, since an artifact may have files of the same names.
ARTIFACTS_FOLDER = "wandb-artifacts"
SAVED_FOLDER = "wandb-files/"
# Artifacts that the SDK logs on its own: code, tables and history as media, the recipe of a job.
OF_THE_SDK = ("job", "code", "run_table", "wandb-history")

# The files of (sweep id, run id) in one location.
OpenRun = Callable[[str, str], Store]
LONGEST_NAME = 100
# Keeps letters and digits of any language, and characters without meaning to shells and file
# systems.
ODD = re.compile(r"[^\w.=+,@-]+")
NOT_KEPT = "deployer_outputs_not_kept"  # agent/prologue/deployer_outputs.py


@dataclass(frozen=True)
class Places:
    """Where to search: `first`, then the run's artifacts, then `last`.

    `family` are the ids of the sweep and its follow-ups.
    """

    client: Client
    path: SweepPath
    family: Sequence[str]
    first: Sequence[OpenRun] = ()
    last: Sequence[OpenRun] = ()

    def open_run(self, run_id: str) -> RunStore:
        """Return all outputs of a run; the first location with any outputs wins."""
        artifacts = list_artifacts(self.client, self.path, run_id)
        own = f"run-{run_id}-output"
        ours = [one for one in artifacts if one.name == own]
        logged = [one for one in artifacts if one.name != own and one.kind not in OF_THE_SDK]
        parts: dict[str, Store] = {
            _name_folder(one): ArtifactStore(self.client, one) for one in logged
        }
        parts[SAVED_FOLDER] = SavedFiles(self.client, self.path, run_id)
        outputs = (
            self._look(self.first, run_id)
            or next((ArtifactStore(self.client, one) for one in ours), None)
            or self._look(self.last, run_id)
        )
        return RunStore({"": outputs, **parts} if outputs else parts)

    def _look(self, places: Sequence[OpenRun], run_id: str) -> Store | None:
        for place in places:
            for sweep_id in self.family:
                store = place(sweep_id, run_id)
                if store.list_entries():
                    return store
                store.close()
        return None


@contextmanager
def open_places(config: Project, server: Server, path: SweepPath) -> Iterator[Places]:
    """Yield the locations of a sweep's outputs; opened stores are closed at the end.

    The local folder comes first for local agents. Otherwise it comes last, after the cluster's
    volume, for outputs from before a change of executor.
    """
    family = list_family(server, path)
    executor = find_executor(config)
    if executor.runs_here or executor.data is None:
        yield Places(server.client, path, family, [open_run_here])
        return
    with SharedVolume(executor.data.open_outputs) as volume:
        yield Places(server.client, path, family, last=[volume.open_run, open_run_here])


def _name_folder(artifact: RunArtifact) -> str:
    return f"{ARTIFACTS_FOLDER}/{artifact.name}/"


def choose_runs(snapshot: Snapshot, best: Results | None, names: Sequence[str]) -> tuple[Run, ...]:
    """Return the best run, or those named by id or title, or all that have finished.

    Raises ConfigError for an unknown run, SweepFailed if there is none to choose.
    """
    path = snapshot.sweep.path
    if best:
        winner = best.best
        if winner is None:
            raise SweepFailed(f"{path} has no best run yet", f"deployer results {path}")
        return tuple(run for run in snapshot.runs if run.run_id == winner.run_id)
    if names:
        found = {run.run_id: run for run in (_find(snapshot, name) for name in names)}
        return tuple(found.values())
    done = tuple(run for run in snapshot.runs if is_done(snapshot.sweep, run.state))
    if not done:
        raise SweepFailed(f"{path}: no run has finished yet", f"deployer watch {path}")
    return done


def _find(snapshot: Snapshot, name: str) -> Run:
    path = snapshot.sweep.path
    by_id = [run for run in snapshot.runs if run.run_id == name]
    found = by_id or [run for run in snapshot.runs if run.title == name]
    if not found:
        hint = "the best one: --best" if name == "best" else f"deployer results {path} -o json"
        raise ConfigError("RUN", f"run '{name}' not found in {path}", hint)
    if len(found) > 1:
        ids = ", ".join(run.run_id for run in found)
        raise ConfigError("RUN", f"{len(found)} runs are called '{name}'", f"name one of: {ids}")
    return found[0]


def name_runs(runs: Sequence[Run]) -> Mapping[str, str]:
    """Return each run's display name, by run id: its title, with its id if ambiguous.

    A run without a title has its id as name.
    """
    counts = Counter(run.title for run in runs)
    return {
        run.run_id: run.title if counts[run.title] == 1 else f"{run.title} ({run.run_id})".strip()
        for run in runs
    } | {run.run_id: run.run_id for run in runs if not run.title}


def is_run(snapshot: Snapshot, name: str) -> bool:
    return any(name in (run.run_id, run.title) for run in snapshot.runs)


def name_folders(runs: Sequence[Run]) -> Mapping[str, str]:
    """Return a folder's name for each run of a sweep, by run id: its title, made safe.

    If names collide, even on a file system that ignores case, they end with the run's id.
    """
    plain = {run.run_id: _make_safe(run.title) or _make_safe(run.run_id) for run in runs}
    counts = Counter(name.casefold() for name in plain.values())
    return {
        run_id: name if counts[name.casefold()] == 1 else f"{name}-{_make_safe(run_id)}"
        for run_id, name in plain.items()
    }


def _make_safe(text: str) -> str:
    return ODD.sub("_", text)[:LONGEST_NAME].strip("._-")


@dataclass(frozen=True)
class Gathered:
    """The result of copying a run; `equal_files` were already there, `entries` have checksums."""

    files: int
    size_bytes: int
    equal_files: int
    entries: tuple[Entry, ...]


def find_loss(run: Run) -> str:
    """Return why a run that has ended could not keep its outputs; empty if it could."""
    return str(run.summary.get(NOT_KEPT) or "")


def gather(source: Store, target: Store, progress: Progress, overwrite: bool) -> Gathered:
    """Copy a run's outputs to its folder; raises DataError, also for files that would be lost.

    An interrupted copy resumes.
    """
    copied = copy(source, target, progress, overwrite=overwrite)
    # For artifacts of trainers only MD5 is known before the copy.
    entries = (one if one.sha256 else _read_checksum(target, one) for one in copied.entries)
    return Gathered(copied.files, copied.size_bytes, copied.equal_files, tuple(entries))


def _read_checksum(target: Store, entry: Entry) -> Entry:
    known = target.checksum(entry.path)
    if known is None:
        digest = hashlib.sha256()
        for chunk in target.read(entry.path):
            digest.update(chunk)
        known = digest.hexdigest()
    return replace(entry, sha256=known)
