"""Writes k8s/wandb-requirements.txt: `.venv/bin/python -m tests.images.wandb_requirements`.

The versions are those of uv.lock, whose Python is 3.11 and newer; for older ones that wandb takes,
uv chooses. The hashes are those of all wheels for Linux, whatever the architecture.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from deployer.agent.wandb_install import OLDEST_PYTHON
from deployer.executors.kubernetes.manifests.job import WANDB_REQUIREMENTS
from deployer.executors.kubernetes.manifests.templates import find_folder
from tests.contract.sdks import ROOT

UV = ROOT / ".tools" / "bin" / "uv"
PATH = find_folder() / WANDB_REQUIREMENTS
OTHER_SYSTEMS = re.compile(r"-(win|macosx|ios|android|pyemscripten)|-pp\d+|-graalpy")
HEADER = """\
# wandb and all that it requires, for pods with `kubernetes: {{install_wandb: true}}`: the
# versions of uv.lock, with the hashes of their wheels for Linux, for Python {python} and newer.
# Written by `python -m tests.images.wandb_requirements`.
"""


def compile_lock() -> list[dict[str, Any]]:
    """Return the packages that uv chooses for wandb, constrained to uv.lock where that counts."""
    export = ("export", "--frozen", "--no-dev", "--no-emit-project", "--no-hashes")
    pins = run_uv(*export, "--no-header", "--no-annotate")
    lines = [f"{line.split(' ;')[0]} ; python_version >= '3.11'" for line in pins.splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        wanted, constraints = Path(folder, "wanted.in"), Path(folder, "constraints.txt")
        wanted.write_text(f"wandb=={version('wandb')}\n")
        constraints.write_text("\n".join(lines))
        words = ("--universal", "--python-version", ".".join(map(str, OLDEST_PYTHON)))
        given = (str(wanted), "--constraint", str(constraints))
        locked = run_uv("pip", "compile", *given, *words, "--format", "pylock.toml")
    packages: list[dict[str, Any]] = tomllib.loads(locked)["packages"]
    return packages


def run_uv(*words: str) -> str:
    return subprocess.run([UV, *words], stdout=subprocess.PIPE, text=True, check=True).stdout


def format_requirements(packages: list[dict[str, Any]]) -> Iterator[str]:
    for package in packages:
        marker = f" ; {package['marker']}" if package.get("marker") else ""
        urls = {one["hashes"]["sha256"]: one["url"] for one in package["wheels"]}
        hashes = [sha for sha, url in urls.items() if not OTHER_SYSTEMS.search(url)]
        lines = [f"{package['name']}=={package['version']}{marker}"]
        lines += [f"    --hash=sha256:{one}" for one in sorted(hashes)]
        yield " \\\n".join(lines) + "\n"


def main() -> None:
    header = HEADER.format(python=".".join(map(str, OLDEST_PYTHON)))
    PATH.write_text(header + "".join(format_requirements(compile_lock())))


if __name__ == "__main__":
    main()
