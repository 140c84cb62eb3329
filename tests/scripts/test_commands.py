"""Commands that start a script in other ways, and scripts of several files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.scripts.asking import PARSE, RAN, SCRIPT, WRONG, ask

OTHER = "p.add_argument('--x')\n" + PARSE
SAID = "parameters.lr: train.py:3: --lr takes float, not 'x' | write numbers as its values"
SHELL = "[bash, run.sh, '${args}']"

COMMANDS: list[tuple[str, str]] = [
    ("[python, train.py, '${args}']", SAID),
    ("['${env}', A=1, python3, -u, train.py, '${args_no_equals}']", SAID),
    ("[python, -X, utf8, train.py, '${args}']", SAID),
    ("['${interpreter}', '${program}', '${args_no_boolean_flags}']", SAID),
    ("[nohup, python, train.py, '${args}']", SAID),
    (
        "[python, -m, torch.distributed.run, --standalone, --nproc_per_node, 2, train.py, "
        "'${args}']",
        SAID,
    ),
    ("[torchrun, --standalone, --nproc-per-node=2, train.py, '${args}']", SAID),
    (
        "[torchrun, --no-python, train.py]",
        "not checked: torchrun --no-python: what it starts cannot be seen",
    ),
    (
        "[accelerate, launch, --cpu, train.py, '${args}']",
        "not checked: there is no accelerate here",
    ),
    ("[python, -c, 'print(1)']", "not checked: its command holds the code itself"),
    ("[nothing-here, x]", "not checked: nothing-here: what it starts cannot be seen"),
    (
        "[bash, -c, 'python train.py']",
        "not checked: bash -c: what a shell does cannot be seen",
    ),
    ("[python, -m, json.tool]", "not checked: the module json.tool is not in this folder"),
    ("[uv, run, --what, train.py]", "not checked: uv run --what: what it starts cannot be seen"),
    ("[poetry, run, python, train.py]", "not checked: there is no poetry here"),
    ("[conda, run, -n, x, python, train.py]", "not checked: there is no conda here"),
    ("[deepspeed, train.py]", "not checked: deepspeed: what it starts cannot be seen"),
    ("[xvfb-run, python, train.py]", "not checked: xvfb-run: what it starts cannot be seen"),
    ("[env, -i, python, train.py]", "not checked: env -i: what it starts cannot be seen"),
    ("[python, gone.py]", "not checked: there is no file gone.py here"),
]


@pytest.mark.parametrize(("command", "said"), COMMANDS, ids=[one[0] for one in COMMANDS])
def test_a_script_is_seen_through_its_command(command: str, said: str, tmp_path: Path) -> None:
    assert ask(tmp_path, SCRIPT, WRONG, command=command) == [said]


def test_a_module_of_a_package_and_what_it_imports(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/__main__.py": "from pkg.flags import read\nread()" + RAN,
        "pkg/flags.py": "def read():\n    " + SCRIPT.replace("\n", "\n    "),
    }
    said = ask(tmp_path, "", WRONG, command="[python, -m, pkg, '${args}']", files=files)
    assert said == [SAID.replace("train.py", "pkg/flags.py").replace(":3", ":4")]


def test_subcommands(tmp_path: Path) -> None:
    script = (
        "import argparse\np = argparse.ArgumentParser()\n"
        "s = p.add_subparsers(dest='what', required=True)\n"
        "fit = s.add_parser('fit')\nfit.add_argument('--lr', type=float)\np.parse_args()\n"
    )
    command = "[python, train.py, fit, '${args}']"
    said = ask(tmp_path, script, "lr: {value: x}, lrr: {value: 1}", command=command)
    assert said == [
        "parameters.lr: train.py:5: --lr takes float, not 'x' | write numbers as its values",
        "parameters.lrr: train.py has no flag --lrr | did you mean --lr? (train.py:5)",
    ]
    assert ask(tmp_path, script, "lr: {value: 1}", command=command) == []


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        ('#!/bin/sh\nset -e\nexport A=1  # why\nexec python \\\n  train.py "$@"\n', SAID),
        (
            'mkdir out\npython train.py "$@"\n',
            "not checked: run.sh: a shell script that does more than start one program",
        ),
        (
            'python train.py "$@" > log\n',
            "not checked: run.sh: a shell script that does more than start one program",
        ),
        (
            "python train.py\n",
            'not checked: run.sh: a shell script that hands on no "$@"',
        ),
    ],
)
def test_a_shell_script_that_only_starts_the_script(shell: str, said: str, tmp_path: Path) -> None:
    assert ask(tmp_path, SCRIPT, WRONG, command=SHELL, files={"run.sh": shell}) == [said]


def test_a_file_of_arguments_is_there(tmp_path: Path) -> None:
    script = (
        "import argparse, json\np = argparse.ArgumentParser()\n"
        "p.add_argument('file', type=lambda f: json.load(open(f))['lr'] + 1)\np.parse_args()\n"
    )
    command = "[python, train.py, '${args_json_file}']"
    assert ask(tmp_path, script, "lr: {value: 1}", command=command) == []


def test_a_script_without_keys_gpu_and_kubeconfig(tmp_path: Path) -> None:
    script = (
        "import argparse, os\nunwanted = {'WANDB_API_KEY', 'HF_TOKEN', 'AWS_SECRET_ACCESS_KEY'}\n"
        "assert not unwanted & set(os.environ)\n"
        "assert os.environ['KUBECONFIG'] == os.devnull and os.environ['WANDB_MODE'] == 'disabled'\n"
        "assert os.environ['CUDA_VISIBLE_DEVICES'] == '' and os.environ['KEPT'] == '1'\n" + SCRIPT
    )
    secret = {"WANDB_API_KEY": "k", "HF_TOKEN": "t", "AWS_SECRET_ACCESS_KEY": "s"}
    kube = {"KUBECONFIG": "/etc/kube", "CUDA_VISIBLE_DEVICES": "0", "KEPT": "1"}
    said = ask(tmp_path, script, WRONG, **secret, **kube)
    assert said == [SAID.replace(":3:", ":8:")]


def test_a_script_that_takes_too_long(tmp_path: Path) -> None:
    script = "import argparse, time\nwhile True: time.sleep(0.1)\n"
    said = ask(tmp_path, script, WRONG, seconds=0.5)
    assert said == ["not checked: no parse_args within 0 s"]


def test_a_refusal_counts_only_if_it_is_one_in_a_process_of_its_own(tmp_path: Path) -> None:
    script = (
        "import argparse\nseen = []\ndef once(text):\n    if seen: raise ValueError\n"
        "    seen.append(text)\n    return int(text)\n"
        "p = argparse.ArgumentParser()\np.add_argument('--seed', type=once)\np.parse_args()\n"
    )
    assert ask(tmp_path, script, "seed: {values: [1, 2, 3]}") == []


@pytest.mark.parametrize(
    ("again", "said"),
    [
        ("subprocess.call([sys.executable, *sys.argv])", "it starts itself again"),
        (
            "os.execv(sys.executable, [sys.executable, *sys.argv])",
            "it starts another program in its own place",
        ),
    ],
)
def test_a_script_that_starts_itself_again_is_not_run(
    again: str, said: str, tmp_path: Path
) -> None:
    script = (
        "import os, subprocess, sys\nif 'AGAIN' not in os.environ:\n"
        f"    os.environ['AGAIN'] = '1'\n    {again}\n" + SCRIPT
    )
    assert ask(tmp_path, script, WRONG) == [f"not checked: {said}"]


@pytest.mark.parametrize("launcher", ["poetry", "pipenv", "conda", "uv"])
def test_an_environment_is_entered_as_its_command_does(launcher: str, tmp_path: Path) -> None:
    """A command that changes the environment runs before the script is asked, with its words."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    fake = bin_folder / launcher
    fake.write_text('#!/bin/sh\necho "$1" > entered\nshift\nexec "$@"\n')
    fake.chmod(0o755)
    path = os.pathsep.join([str(bin_folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    command = f"[{launcher}, run, python, train.py, '${{args}}']"
    assert ask(tmp_path, SCRIPT, WRONG, command=command, PATH=path) == [SAID]
    assert (tmp_path / "entered").read_text() == "run\n"


def test_a_refusal_is_placed_at_the_flag_that_it_names(tmp_path: Path) -> None:
    script = (
        "import argparse\np = argparse.ArgumentParser()\ng = p.add_mutually_exclusive_group()\n"
        "g.add_argument('--a')\ng.add_argument('--b')\n"
    ) + PARSE
    [said] = ask(tmp_path, script, "a: {value: 1}, b: {value: 2}")
    assert said.startswith("parameters.b: train.py refuses its command: argument --b: not allowed")
