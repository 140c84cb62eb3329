"""A warm parent without its supervisor, and runs that are started as an agent starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deployer.agent.environment import agent_environment
from deployer.agent.host.processes import list_marked, reap
from deployer.agent.settings import AgentSettings
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
    settings: AgentSettings
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
        self.parent.keep_running(reap())
        wait_for(self.serves, "the parent")

    def begin_cold(self) -> None:
        """Start a parent that finds out that it must not fork, and wait for its end."""
        self.parent.keep_running(())
        wait_for((self.folder / "warm.cold").exists, "the parent's reason")
        wait_for(lambda: not [reap(), *list_marked(str(self.folder))][1:], "the parent's end")

    def end(self) -> None:
        """Let the parent go, and wait for its end."""
        self.parent.stop()
        wait_for(lambda: not [reap(), *list_marked(str(self.folder))][1:], "the parent's end")
        assert not (self.folder / "warm.sock").exists()

    def serves(self) -> bool:
        """Tell whether the parent serves."""
        starting = (self.folder / "warm.starting").exists()
        return (self.folder / "warm.sock").exists() and not starting

    @property
    def start(self) -> str:
        """Return how the last run was started."""
        return (self.folder / "start").read_text()


def build_starts(
    tmp_path: Path,
    script: str = "",
    packages: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Starts:
    """Return what starts runs; the parent preloads what `script` imports, and `packages`."""
    folder, project = tmp_path / "agents" / "a1", tmp_path / "project"
    folder.mkdir(parents=True)
    project.mkdir()
    (project / "script.py").write_text(script)
    settings = AgentSettings(
        "e/p/sweep", "http://127.0.0.1:1", "a1", str(folder), warm=True, warm_packages=packages
    )
    before = {
        **os.environ,
        **(environment or {}),
        "WANDB_API_KEY": "k" * 40,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(tmp_path / "site-packages"),
    }
    agents = agent_environment(settings, before)
    parent = WarmParent(settings)
    os.chdir(project)
    led = parent.prepare(agents, "script.py")
    run = {
        "WANDB_RUN_ID": "run1",
        "WANDB_SWEEP_ID": "sweep",
        "DEPLOYER_CHECKPOINT_ROOT": str(folder),
    }
    return Starts(folder, project, settings, parent, {**agents, **run}, {**led, **run})


@contextmanager
def start_parent(
    tmp_path: Path,
    script: str = "",
    packages: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Starts]:
    """Install packages that the parent preloads, as if `warm:` named them; yield when it serves."""
    here = Path.cwd()
    for name, source in (packages or {}).items():
        folder = tmp_path / "site-packages" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(source)
    made = build_starts(tmp_path, script, tuple(packages or {}), environment)
    made.begin()
    yield made
    made.end()
    os.chdir(here)
