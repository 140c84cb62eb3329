"""Checks what local runs have: Python, modules, torch and its GPUs, disk space.

The interpreter runs in a process of its own: nothing of it is imported here.
"""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deployer.errors import Finding, right, unknown, warning, wrong
from deployer.executors.base import Check
from deployer.executors.local.run_environment import PROBE_SECONDS, Interpreter
from deployer.executors.local.supervisors import list_gpus
from deployer.scripts.missing_modules import CHOOSE, PACKAGES, list_remedies
from deployer.text import format_count

VENV = "python3 -m venv .venv && . .venv/bin/activate"
OLDEST_PYTHON = (3, 8)  # the supervisor's minimum
OLDEST_WANDB = (0, 22, 3)  # the oldest version in the supervisor's tests
ASK_PYTHON = """
import importlib.metadata, importlib.util, json, sys
def there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
try:
    wandb = importlib.metadata.version("wandb")
except importlib.metadata.PackageNotFoundError:
    wandb = ""
missing = [name for name in sys.argv[1:] if not there(name)]
print(json.dumps([list(sys.version_info[:3]), wandb, missing]))
"""
ASK_TORCH = """
import importlib.util, json
version, gpus, failure = "", 0, ""
if importlib.util.find_spec("torch"):
    try:
        import torch
        version, gpus = torch.__version__, torch.cuda.device_count()
    except Exception as error:
        failure = str(error)
print(json.dumps([version, gpus, failure]))
"""
TORCH_SECONDS = 60.0  # a cold disk reads its libraries slowly


@dataclass(frozen=True)
class InstalledPython:
    """What the runs' Python reports about itself; `missing` maps a hint to its modules."""

    chosen: Interpreter
    version: tuple[int, ...]
    wandb: str
    missing: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Torch:
    """What its torch reports: the number of `gpus`; `failure` is why its import fails."""

    version: str = ""
    gpus: int = 0
    failure: str = ""


def list_python_checks(
    chosen: Interpreter, environment: Mapping[str, str], script: Path | None, folder: Path
) -> tuple[Check, ...]:
    """Return the checks of the runs' interpreter; `script` is their program, if known.

    If the script does not import torch, it is not checked, because that takes seconds.
    """
    modules = list_imports(script)
    asker = _Asker(chosen, environment)
    checks = [Check("python", "python", lambda: examine_python(asker, modules, folder))]
    if script is None or "torch" in modules:
        checks.append(Check("torch", "torch", lambda: examine_torch(asker, environment)))
    return tuple(checks)


@dataclass(frozen=True)
class _Asker:
    """Runs code in another interpreter, in a process of its own."""

    chosen: Interpreter
    environment: Mapping[str, str]

    def ask(self, code: str, words: Sequence[str] = (), seconds: float = PROBE_SECONDS) -> Any:
        """Return what a program prints as JSON; None without output in time."""
        try:
            answer = subprocess.run(
                [self.chosen.path, "-c", code, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env=dict(self.environment),
                timeout=seconds,
                check=True,
            )
            return json.loads(answer.stdout.splitlines()[-1])
        except (OSError, subprocess.SubprocessError, ValueError, IndexError):
            return None


def examine_python(asker: _Asker, modules: Sequence[str], folder: Path) -> Iterator[Finding]:
    """Check the version, wandb and the modules of a script, whose project is in `folder`."""
    said = asker.ask(ASK_PYTHON, modules)
    if said is None:
        yield wrong("python", "python", f"{asker.chosen.path} does not answer", VENV)
        return
    version, wandb, missing = said
    remedies = list_remedies(missing, asker.chosen.path, folder, asker.environment)
    yield from judge_python(InstalledPython(asker.chosen, tuple(version), wandb, remedies))


def examine_torch(asker: _Asker, environment: Mapping[str, str]) -> Iterator[Finding]:
    said = asker.ask(ASK_TORCH, seconds=TORCH_SECONDS)
    if said is None:
        yield unknown("torch", "torch", f"did not say in {TORCH_SECONDS:.0f} s which GPUs it sees")
        return
    yield judge_torch(Torch(*said), asker.chosen.path, len(list_gpus(environment)))


def judge_python(found: InstalledPython) -> Iterator[Finding]:
    """Yield what an interpreter lacks; pure."""
    yield _judge_python(found)
    path = found.chosen.path
    for hint, modules in found.missing.items():
        said = f"{path} lacks {', '.join(modules)}, which the script imports"
        yield warning("modules", "the script's modules", said, hint)


def _judge_python(found: InstalledPython) -> Finding:
    path = found.chosen.path
    version = ".".join(map(str, found.version))
    subject = f"python {version}"
    if found.version[:2] < OLDEST_PYTHON:
        said = f"{path} is older than Python 3.8"
        return warning("python", subject, said, VENV)
    if found.chosen.is_own:
        said = f"{path} is deployer's own: it has none of your script's packages"
        return warning("python", subject, said, CHOOSE)
    if not found.chosen.needs_wandb:
        return right("python", subject, f"{path} ({found.chosen.reason})")
    install = f"{path} -m pip install 'wandb>={'.'.join(map(str, OLDEST_WANDB))}'"
    if not found.wandb:
        return wrong("python", subject, f"{path} has no wandb", install)
    if _parse(found.wandb) < OLDEST_WANDB:
        return warning("python", subject, f"{path} has wandb {found.wandb}: too old", install)
    return right("python", subject, f"{path} ({found.chosen.reason}), wandb {found.wandb}")


def judge_torch(found: Torch, python: str, gpus: int) -> Finding:
    """Return whether torch works and sees all GPUs of the machine; pure."""
    subject = f"torch {found.version}".strip()
    again = f"{python} -m pip install --force-reinstall torch"
    if found.failure:
        return warning("torch", subject, f"cannot be imported: {found.failure}", again)
    if not found.version:
        return unknown(
            "torch", subject, "is not installed, which matters only if your script imports it"
        )
    if gpus and not found.gpus:
        here = format_count(gpus, "GPU")
        return warning("gpu", subject, f"this machine has {here}, but torch sees none", again)
    if not gpus:
        return right("gpu", subject, "this machine has no GPU: runs share its cores")
    return right("gpu", subject, f"sees {format_count(found.gpus, 'GPU')} of {gpus}")


def list_imports(script: Path | None) -> tuple[str, ...]:
    """Return the modules that a script, and the modules next to it, import at the top level.

    Modules next to it are left out. So are unknown ones if the script adds to `sys.path`: only the
    script check, which runs it, can find them.
    """
    names: dict[str, None] = {}
    waiting, seen = [script] if script else [], set[Path]()
    adds_paths = script is not None and script.exists() and b"sys.path" in script.read_bytes()
    while waiting:
        file = waiting.pop()
        seen.add(file)
        for name in _read_imports(file):
            own = _find_sibling(file.parent, name)
            if not own and (name in PACKAGES or not adds_paths):
                names[name] = None
            waiting += [one for one in own if one not in seen]
    return tuple(names)


def _read_imports(script: Path) -> list[str]:
    try:
        tree = ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    return [name for node in tree.body for name in _imported(node)]


def _imported(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module.partition(".")[0]


def _find_sibling(folder: Path, name: str) -> list[Path]:
    """Return the first existing file of a module next to a script."""
    files = (folder / f"{name}.py", folder / name / "__init__.py", folder / name)
    return [one for one in files if one.exists()][:1]


def _parse(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
