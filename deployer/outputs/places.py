"""Where a sweep's runs may have left their outputs, and what of one run is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from deployer.config.project import Project
from deployer.data.store import Store
from deployer.executors.base import KeepsData
from deployer.executors.registry import find_executor
from deployer.model import SweepPath
from deployer.outputs.artifact_store import ArtifactStore, SavedFiles
from deployer.outputs.kept_here import open_run_here
from deployer.outputs.run_store import RunStore
from deployer.outputs.shared_volume import SharedVolume
from deployer.sweeps.rerun import list_family
from deployer.wandb_api.artifacts import RunArtifact, list_artifacts
from deployer.wandb_api.client import Client
from deployer.wandb_api.server import Server

# Below a run's own outputs, since an artifact may have files of the same names.
ARTIFACTS_FOLDER = "wandb-artifacts"
SAVED_FOLDER = "wandb-files/"
# What the SDK logs by itself: code, tables and history as media, the recipe of a job.
OF_THE_SDK = ("job", "code", "run_table", "wandb-history")

# The files of (sweep id, run id) in one place.
Place = Callable[[str, str], Store]


@dataclass(frozen=True)
class Places:
    """Where to look, in this order, then among the artifacts of the run, then in `last` ones.

    `family` are the ids of the sweep and its follow-ups.
    """

    client: Client
    path: SweepPath
    family: Sequence[str]
    first: Sequence[Place] = ()
    last: Sequence[Place] = ()

    def open_run(self, run_id: str) -> RunStore:
        """Return all that a run has kept; the first place with any outputs of it counts."""
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

    def _look(self, places: Sequence[Place], run_id: str) -> Store | None:
        for place in places:
            for sweep_id in self.family:
                store = place(sweep_id, run_id)
                if store.list_entries():
                    return store
                store.close()
        return None


@contextmanager
def open_places(config: Project, server: Server, path: SweepPath) -> Iterator[Places]:
    """Give the places of a sweep's outputs; what has to be opened for it is closed at the end.

    A folder of this machine comes first where agents run here; otherwise what they left there
    before they went elsewhere is the last to look at, after the volume of a cluster.
    """
    family = list_family(server, path)
    executor = find_executor(config)
    if executor.runs_here or not isinstance(executor, KeepsData):
        yield Places(server.client, path, family, [open_run_here])
        return
    with SharedVolume(executor.open_outputs) as volume:
        yield Places(server.client, path, family, last=[volume.open_run, open_run_here])


def _name_folder(artifact: RunArtifact) -> str:
    return f"{ARTIFACTS_FOLDER}/{artifact.name}/"
