"""This machine as `--on local` names it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deployer.errors import collect_refusals
from deployer.executors.findings import Finding, examine_all
from deployer.executors.local.examination import list_python_questions
from deployer.executors.local.executor import LocalExecutor
from deployer.executors.local.supervisors import find_path
from deployer.executors.local.surroundings import read_surroundings
from deployer.executors.target import Demand, Surroundings, Target, Tell

if TYPE_CHECKING:
    from deployer.config.sections.data import DataSet
    from deployer.data.store import Store


class LocalTarget(Target):
    """Agents as processes of this machine."""

    runs_here = True

    @property
    def run_environment(self) -> Mapping[str, str]:
        """Return the environment of runs, with the Python that they get."""
        environment = self.project.environment
        return {**environment, **dict(self._find_variables()), "PATH": find_path(environment)}

    def open(self) -> LocalExecutor:
        """Return the executor."""
        return LocalExecutor(self.project.environment, variables=self._find_variables())

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

    def open_data(self, data: DataSet, tell: Tell, size_bytes: int | None = None) -> Store:
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
        environment = self.project.environment
        system = [one.question() for one in self.open().list_checks(demand.plan)]
        return examine_all([*system, *list_python_questions(environment, demand.script)])

    def read_surroundings(self) -> Surroundings:
        """Return the Python that runs the trainer, its packages, and the driver of the GPUs."""
        return read_surroundings(self.project.environment)
