"""This machine as `--on local` names it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deployer.errors import collect_refusals
from deployer.executors.checks import Question, examine_all
from deployer.executors.local.examination import list_python_questions
from deployer.executors.local.executor import LocalExecutor
from deployer.executors.local.run_environment import (
    build_run_environment,
    choose_interpreter,
    list_dropped,
)
from deployer.executors.local.surroundings import read_surroundings
from deployer.executors.target import Demand, Surroundings, Target
from deployer.findings import Finding

if TYPE_CHECKING:
    from deployer.config.sections.data import DataSet
    from deployer.data.store import Store


class LocalTarget(Target):
    """Agents as processes of this machine."""

    runs_here = True

    @property
    def run_environment(self) -> Mapping[str, str]:
        """Return the environment of runs, with the Python that they get."""
        return {**build_run_environment(self.project), **dict(self._find_variables())}

    def open(self) -> LocalExecutor:
        """Return the executor."""
        return LocalExecutor(
            self.project.environment,
            variables=self._find_variables(),
            find_environment=lambda: build_run_environment(self.project),
        )

    def describe_runs(self) -> Sequence[str]:
        """Name the Python of the runs, and the W&B settings that they do not get."""
        chosen = choose_interpreter(self.project)
        dropped = list_dropped(self.project)
        return (
            f"Python of the runs: {chosen.path} ({chosen.reason})",
            *([f"runs do not get {', '.join(dropped)}"] if dropped else []),
        )

    def _find_variables(self) -> tuple[tuple[str, str], ...]:
        """Return what deployer.yaml tells runs: where data is, where outputs go."""
        sets = self.project.data
        outputs = tuple(self.project.outputs.environment)
        if not sets:
            return outputs
        from deployer.config.sections.data import list_variables
        from deployer.data.places import find_place

        places = {data.name: str(find_place(data, self.project.folder)) for data in sets}
        return (*list_variables(sets, places), *outputs)

    def open_data(self, data: DataSet, size_bytes: int | None = None) -> Store:
        """Return the folder of this machine."""
        from deployer.data.folder_store import FolderStore
        from deployer.data.places import find_place

        # Runs may follow every link: nothing is copied to where a link would be lost.
        return FolderStore(find_place(data, self.project.folder), links_out=True)

    def check_data(self) -> None:
        """Refuse data sets that are not here, or not whole; raises DeployerError."""
        if self.project.data:
            from deployer.data.places import check_here

            with collect_refusals() as refusals:
                for data in self.project.data:
                    with refusals.noted():
                        check_here(data, self.project.folder)

    def examine(self, demand: Demand) -> Sequence[Finding]:
        """Return what is right and wrong with this system and the Python of its runs."""
        system = [one.question() for one in self.open().list_checks(demand.plan)]
        python = Question("python", "python", lambda: self._examine_python(demand.script))
        return examine_all([*system, python])

    def _examine_python(self, script: Path | None) -> Sequence[Finding]:
        chosen = choose_interpreter(self.project)
        return examine_all(list_python_questions(chosen, self.run_environment, script))

    def read_surroundings(self) -> Surroundings:
        """Return the Python that runs the trainer, its packages, and the driver of the GPUs."""
        return read_surroundings(choose_interpreter(self.project).path, self.run_environment)
