"""A warm parent without its supervisor, and runs that are started as an agent starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deployer.agent.environment import agent_environment
from deployer.agent.host.processes import list_marked, reap
from deployer.agent.settings import Settings
from deployer.agent.warm.examined import EXAMINED
from deployer.agent.warm.parent import WarmParent
from tests.agent.conftest import wait_for

# What an agent does to start a run; the comment makes it one for the stand-in.
STARTER = """
import subprocess, sys
open("/proc/self/comm", "w").write("wandb-agent")
words = sys.argv[1:]
with open("out", "w") as out, open("err", "w") as err:
    run = subprocess.Popen(["/usr/bin/env", "python", *words], stdin=subprocess.PIPE,
                           stdout=out, stderr=err, process_group=0)
    run.stdin.close()
    print(run.wait())
"""


@dataclass
class Starts:
    """An agent's folder with a warm parent, and a project folder in which runs are started."""

    folder: Path
    project: Path
    settings: Settings
    parent: WarmParent
    cold: dict[str, str]
    warm: dict[str, str] = field(default_factory=dict)

    def run(self, words: tuple[str, ...], environment: dict[str, str]) -> tuple[int, str, str]:
        """Start one run; return its exit status and what it printed."""
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", STARTER, *words],
            cwd=self.project,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        out, err = (self.project / name for name in ("out", "err"))
        return int(done.stdout), out.read_text(), err.read_text()

    def run_script(self, script: str, *words: str) -> tuple[str, str]:
        """Start a script as an agent does; return what it printed."""
        (self.project / "script.py").write_text(script)
        code, out, err = self.run(("script.py", *words), self.warm)
        assert code == 0, err
        return out, err

    def begin(self) -> None:
        """Start the parent, and wait until it serves."""
        self.parent.tend(reap())
        wait_for(self.serves, "the parent")

    def end(self) -> None:
        """Let the parent go, and wait for its end."""
        self.parent.let_go()
        wait_for(lambda: not [reap(), *list_marked(str(self.folder))][1:], "the parent's end")
        assert not (self.folder / "warm.sock").exists()

    def read_unfit(self) -> dict[str, str]:
        """Return why modules are not imported for all, by their names."""
        path = Path(f"{self.warm['DEPLOYER_WARM_IMPORTS']}.unfit")
        lines = path.read_text().splitlines() if path.exists() else []
        return dict(line.split("\t") for line in lines)

    def serves(self) -> bool:
        """Tell whether the parent serves."""
        starting = (self.folder / "warm.starting").exists()
        return (self.folder / "warm.sock").exists() and not starting

    @property
    def start(self) -> str:
        """Return how the last run was started."""
        return (self.folder / "start").read_text()


def build_starts(
    tmp_path: Path, modules: list[str] | None = None, packages: Iterable[str] | None = None
) -> Starts:
    """Return what it takes to start runs of which the parent imports `packages`, or all modules.

    Without `modules` a first run tells what it imports.
    """
    packages = packages or [name.partition(".")[0] for name in modules or EXAMINED]
    folder, project = tmp_path / "agents" / "a1", tmp_path / "project"
    folder.mkdir(parents=True)
    project.mkdir()
    settings = Settings("e/p/sweep", "http://127.0.0.1:1", "a1", str(folder), warm=True)
    before = {
        **os.environ,
        "WANDB_API_KEY": "k" * 40,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": str(tmp_path / "site-packages"),
    }
    agents = agent_environment(settings, before)
    parent = WarmParent(settings, packages)
    os.chdir(project)
    led = parent.lead(agents)
    if modules is not None:
        Path(led["DEPLOYER_WARM_IMPORTS"]).write_text("\n".join(modules))
    run = {
        "WANDB_RUN_ID": "run1",
        "WANDB_SWEEP_ID": "sweep",
        "DEPLOYER_CHECKPOINT_ROOT": str(folder),
    }
    return Starts(folder, project, settings, parent, {**agents, **run}, {**led, **run})


@contextmanager
def install_packages(
    tmp_path: Path, sources: Mapping[str, str], unexamined: Collection[str] = ()
) -> Iterator[Starts]:
    """Install packages; yield what starts runs of which the parent imports them, and numpy."""
    here = Path.cwd()
    made = build_starts(tmp_path, packages=[*sources.keys() - unexamined, "numpy"])
    for name, source in sources.items():
        folder = tmp_path / "site-packages" / name.replace(".", "/")
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(source)
    yield made
    made.end()
    os.chdir(here)
