"""What `doctor` says of this machine: its interpreter, its clock, its disk, a port."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from deployer.errors import Finding, Severity
from deployer.executors.base import judge_clock
from deployer.executors.local.examination import (
    InstalledPython,
    Torch,
    judge_python,
    judge_torch,
    list_imports,
)
from deployer.executors.local.run_environment import Interpreter
from deployer.launch.check import judge_disk
from deployer.launch.doctor import judge_port
from deployer.scripts.missing_modules import CHOOSE

FINE = InstalledPython(Interpreter("/venv/bin/python", "VIRTUAL_ENV"), (3, 11, 7), "0.31.0")
SWEEP = "program: train.py\nmethod: grid\nparameters: {a: {values: [1, 2]}}\n"


def show(found: Finding) -> str:
    return f"{found.severity}: {found.message} | {found.fix}"


def test_an_interpreter_is_judged_by_what_it_lacks() -> None:
    def said(**changes: object) -> list[str]:
        found = judge_python(replace(FINE, **changes))  # type: ignore[arg-type]
        return [show(one) for one in found if one.severity is not Severity.OK]

    install = "/venv/bin/python -m pip install"
    assert said() == []
    assert said(wandb="") == [f"error: /venv/bin/python has no wandb | {install} 'wandb>=0.22.3'"]
    assert said(wandb="0.21.4") == [
        f"warning: /venv/bin/python has wandb 0.21.4: too old | {install} 'wandb>=0.22.3'"
    ]
    [own] = said(chosen=Interpreter("/own/python", "deployer's own; no python on PATH"))
    assert own.endswith("has none of your script's packages | " + CHOOSE)
    missing = {f"{install} timm einops": ["timm", "einops"], "install it": ["x"]}
    assert said(missing=missing) == [
        "warning: /venv/bin/python lacks timm, einops, which the script imports | "
        f"{install} timm einops",
        "warning: /venv/bin/python lacks x, which the script imports | install it",
    ]


def test_torch_is_judged_by_the_gpus_that_it_sees() -> None:
    def said(torch: Torch, gpus: int) -> str:
        return show(judge_torch(torch, "/venv/bin/python", gpus))

    again = "/venv/bin/python -m pip install --force-reinstall torch"
    assert said(Torch("2.15.0", 2), 2) == "ok: sees 2 GPUs of 2 | "
    assert said(Torch("2.15.0"), 0).startswith("ok: this machine has no GPU")
    assert said(Torch(), 2).startswith("unknown: is not installed")
    assert said(Torch("2.15.0+cpu"), 2) == (
        f"warning: this machine has 2 GPUs, but torch sees none | {again}"
    )
    assert said(Torch(failure="libcudart.so.13: no such file"), 2) == (
        f"warning: cannot be imported: libcudart.so.13: no such file | {again}"
    )


def test_only_what_is_not_beside_a_script_is_asked_of_the_interpreter(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("import wandb\nfrom . import package\nimport train\n")
    (tmp_path / "package").mkdir()
    script = tmp_path / "train.py"
    script.write_text(
        "import own, package.inner, numpy.linalg\nfrom torch import nn\nimport torch\n"
    )
    assert list_imports(script) == ("numpy", "torch", "wandb")
    script.write_text("import sys\nsys.path.insert(0, '../lib')\nimport helper, torch\n")
    assert list_imports(script) == ("torch",)
    script.write_text("this is no Python")
    assert list_imports(script) == ()
    assert list_imports(tmp_path / "none.py") == ()


def test_a_clock_may_be_a_minute_off() -> None:
    assert judge_clock("https://w.example", -59).severity is Severity.OK
    assert show(judge_clock("https://w.example", 300)) == (
        "warning: its clock is 5 min ahead of this machine's | sudo timedatectl set-ntp true"
    )


def test_a_full_disk_is_wrong_and_one_with_little_room_doubtful() -> None:
    home = Path("/home/carol/.local/share/deployer")
    assert judge_disk(home, "the state folder", 2 << 30).severity is Severity.OK
    assert show(judge_disk(home, "the state folder", 500_000_000)) == (
        "warning: 500 MB free for the state folder, less than 1 GiB | "
        f"du -xh -d 2 {home} | sort -h | tail"
    )
    full = judge_disk(home, "the state folder", 1_000_000)
    assert full.is_error
    assert full.message == "the disk is full: 1 MB free for the state folder"


def test_a_port_that_somebody_else_has_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = judge_port(f"http://name.invalid:{port}")
    assert found.severity is Severity.ERROR
    assert f"ss -tlnp 'sport = :{port}'" in found.fix
    assert judge_port(f"http://127.0.0.1:{port}").severity is Severity.OK


def test_this_machine_is_checked_and_two_faults_are_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    (tmp_path / "train.py").write_text("import wandb, no_such_module\n")
    home = tmp_path / "home"
    environment = {**os.environ, "HOME": str(tmp_path), "DEPLOYER_HOME": str(home)}
    environment = {name: v for name, v in environment.items() if not name.startswith("WANDB_")}
    command = [sys.executable, "-m", "deployer", "doctor", "sweep.yaml", "-o", "json"]

    def examine(*more: str) -> tuple[int, dict[str, dict[str, str]]]:
        done = subprocess.run(
            [*command, *more], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        found = json.loads(done.stdout)["findings"]
        return done.returncode, {one["code"]: one for one in found if one["verdict"] == "wrong"}

    code, wrong = examine("--wandb", "http://127.0.0.1:9")
    assert code == 1
    assert set(wrong) == {"script", "key"}
    assert wrong["key"]["remedy"].startswith("wandb login --host http://127.0.0.1:9")
    (tmp_path / "train.py").write_text("import wandb\n")
    assert examine() == (0, {})
    assert not (home / "backend").exists()  # nothing was started
