"""A script and a sweep in a folder of their own, and what is said of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from deployer.scripts.script_check import Surroundings, check_script
from deployer.sweeps.sweep_file import parse_sweep

SCRIPT = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float)\n"
PARSE = "p.parse_args()\n"
SCRIPT += PARSE
WRONG, RIGHT = "lr: {value: x}", "lr: {value: 1}"
SAID = "parameters.lr: train.py:3: argument --lr: invalid float value: 'x'"
# No script that parses may come to its end: this file would be there.
RAN = '\nopen("ran", "w")\n'


def ask(
    folder: Path,
    script: str,
    parameters: str,
    *,
    command: str = "",
    files: dict[str, str] | None = None,
    more: str = "",
    method: str = "grid",
    same_packages: bool = True,
    seconds: float = 60.0,
    python: str = sys.executable,
    may_end: bool = False,
    **environment: str,
) -> list[str]:
    """Return each complaint as a line, and why the script was not asked."""
    for name, text in {"train.py": script + RAN, **(files or {})}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    text = f"program: train.py\nmethod: {method}\nparameters: {{{parameters}}}\n{more}"
    sweep = parse_sweep(text + (f"command: {command}\n" if command else ""), "s.yaml")
    path = os.pathsep.join([str(Path(python).parent), os.environ["PATH"]])
    own = {"HOME": str(folder), "PATH": path, **environment}
    around = Surroundings(folder, own, same_packages)
    report = check_script(sweep.config, around, seconds)
    assert may_end or not (folder / "ran").exists()
    lines = []
    for one in report.problems:
        hint = f" | {one.fix}" if one.fix else ""
        doubt = "doubt: " if one.severity == "warning" else ""
        lines.append(f"{doubt}{'.'.join(one.path)}: {one.message}{hint}")
    return lines + ([f"not checked: {report.not_checked}"] if report.not_checked else [])
