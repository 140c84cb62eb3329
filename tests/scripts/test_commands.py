"""Commands that start a script in other ways, and what a script gets while it is asked."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tests.scripts.asking import PARSE, RAN, RIGHT, SAID, SCRIPT, WRONG, ask

NUMBERS = f"{SAID} | write numbers as its values"
SHELL = "[bash, run.sh, '${args}']"
INSTALL = "install it, or name another program in command"

COMMANDS: list[tuple[str, str]] = [
    ("['${env}', A=1, PYTHONPATH=., python3, -u, train.py, '${args_no_equals}']", NUMBERS),
    ("[python, -X, utf8, train.py, '${args}', --x, '1']", NUMBERS),
    ("[nohup, '${interpreter}', '${program}', '${args_no_boolean_flags}']", NUMBERS),
    ("[bash, -c, 'exec python $0 $*', '${program}', '${args_no_equals}']", NUMBERS),
    ("[python, -c, 'print(1)']", "not checked: its command contains the code"),
    ("[python, -Iu, train.py]", "not checked: python -Iu cannot be checked"),
    ("[docker, run, image, python, train.py]", "not checked: docker starts the script elsewhere"),
    ("[env, -i, python, train.py]", "not checked: env -i cannot be checked"),
    ("[sleep, '100']", "not checked: its command starts no Python within 1 s"),
    ("[python, gone.py]", "not checked: it ends with exit code 2 before it has parsed its flags"),
    (
        "[accelerate, launch, train.py]",
        f"command.[0]: program accelerate not found on PATH | {INSTALL}",
    ),
    (
        "['${env}', A=1, conda, run, train.py]",
        f"command.[2]: program conda not found on PATH | {INSTALL}",
    ),
    (
        "[python9, train.py]",
        "command.[0]: program python9 not found on PATH | "
        "write ${interpreter}, the Python of `local: {python: PATH}` or of PATH",
    ),
    (
        "[nohup, python9, x]",
        f"command: nohup: failed to run command 'python9': No such file or directory | {INSTALL}",
    ),
]


@pytest.mark.parametrize(("command", "said"), COMMANDS, ids=[one[0] for one in COMMANDS])
def test_a_script_is_asked_through_its_command(
    command: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in command:
        monkeypatch.setattr("deployer.scripts.rehearsal.process.START_SECONDS", 1.0)
    script = SCRIPT.replace(PARSE, "p.add_argument('--x')\n" + PARSE)
    assert ask(tmp_path, script, WRONG, command=command) == [said]


@pytest.mark.full
@pytest.mark.slow(seconds=10)
@pytest.mark.parametrize("command", ["python, -m, torch.distributed.run", "torchrun"])
def test_torchrun(command: str, tmp_path: Path) -> None:
    command = f"[{command}, --standalone, --nproc_per_node, 2, train.py, '${{args}}']"
    assert ask(tmp_path, SCRIPT, WRONG, command=command) == [NUMBERS]


def test_a_module_of_a_package_and_what_it_imports(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/__main__.py": "from pkg.flags import read\nread()" + RAN,
        "pkg/flags.py": "def read():\n    " + SCRIPT.replace("\n", "\n    "),
    }
    said = NUMBERS.replace("train.py:3", "pkg/flags.py:4")
    assert ask(tmp_path, "", WRONG, command="[python, -m, pkg, '${args}']", files=files) == [said]
    files = {"src/__main__.py": SCRIPT + RAN}
    said = NUMBERS.replace("train.py", "src/__main__.py")
    assert ask(tmp_path, "", WRONG, command="[python, src, '${args}']", files=files) == [said]


def test_subcommands(tmp_path: Path) -> None:
    script = (
        "import argparse\np = argparse.ArgumentParser()\n"
        "s = p.add_subparsers(dest='what', required=True)\n"
        "fit = s.add_parser('fit')\nfit.add_argument('--lr', type=float)\np.parse_args()\n"
    )
    command = "[python, train.py, fit, '${args}']"
    assert ask(tmp_path, script, "lr: {value: x}, lrr: {value: 1}", command=command) == [
        NUMBERS.replace(":3", ":5"),
        "parameters.lrr: train.py: unrecognized arguments: --lrr=1 | "
        "did you mean --lr? (train.py:5)",
    ]
    assert ask(tmp_path, script, RIGHT) == [
        "parameters: train.py: the following arguments are required: what | "
        "command: [..., fit, '${args}']"
    ]


def test_several_flags_in_one_word_are_placed_at_the_word(tmp_path: Path) -> None:
    script = SCRIPT.replace(PARSE, "p.add_argument('--n', type=int)\n" + PARSE)
    [said] = ask(tmp_path, script, RIGHT, command="[python, train.py, --n=2 --lr=3]")
    assert said.startswith("command.[2]: train.py: argument --n: invalid int value: '2 --lr=3'")


@pytest.mark.parametrize(
    "shell",
    [
        '#!/bin/sh\nset -e\nexport A=1  # why\nexec python \\\n  train.py "$@"\n',
        'mkdir -p out\npython train.py "$@" > log\n',
    ],
)
def test_a_shell_script(shell: str, tmp_path: Path) -> None:
    assert ask(tmp_path, SCRIPT, WRONG, command=SHELL, files={"run.sh": shell}) == [NUMBERS]


def test_a_file_of_arguments_is_there(tmp_path: Path) -> None:
    script = (
        "import argparse, json\np = argparse.ArgumentParser()\n"
        "p.add_argument('file', type=lambda f: json.load(open(f))['lr'] + 1)\np.parse_args()\n"
    )
    command = "[python, train.py, '${args_json_file}']"
    assert ask(tmp_path, script, "lr: {values: [1, 2]}", command=command) == []


def test_a_script_without_keys_gpu_and_kubeconfig(tmp_path: Path) -> None:
    script = (
        "import argparse, os\nunwanted = {'WANDB_API_KEY', 'HF_TOKEN', 'AWS_SECRET_ACCESS_KEY'}\n"
        "assert not unwanted & set(os.environ)\n"
        "assert os.environ['KUBECONFIG'] == os.devnull and os.environ['WANDB_MODE'] == 'disabled'\n"
        "assert os.environ['CUDA_VISIBLE_DEVICES'] == '' and os.environ['KEPT'] == '1'\n"
        "assert os.getpgrp() != int(os.environ['GROUP']) and 'rehearsal' in os.environ['TMPDIR']\n"
    )
    secret = {"WANDB_API_KEY": "k", "HF_TOKEN": "t", "AWS_SECRET_ACCESS_KEY": "s"}
    kube = {"KUBECONFIG": "/etc/kube", "CUDA_VISIBLE_DEVICES": "0", "KEPT": "1"}
    kube["GROUP"] = str(os.getpgrp())
    said = ask(tmp_path, script + SCRIPT, WRONG, **secret, **kube)
    assert said == [NUMBERS.replace(":3:", ":9:")]


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("[python, train.py]", False),
        ("['${env}', python, -m, train]", False),
        ("['${env}', '${args_no_hyphens}', bash, -c, 'exec $@', '-', python, train.py]", False),
        ("[python, train.py, --epochs=3]", True),
        ("[python, train.py, '${args}']", True),
    ],
)
def test_a_script_that_gets_no_words_is_not_started(
    command: str, runs: bool, tmp_path: Path
) -> None:
    said = ask(tmp_path, "print('trains')\n", RIGHT, command=command, may_end=True)
    assert (tmp_path / "ran").exists() == runs
    assert bool(said) == runs


def test_a_script_without_the_files_of_keys_below_home(tmp_path: Path) -> None:
    variables = ("CLOUDSDK_CONFIG", "HF_TOKEN_PATH", "KAGGLE_CONFIG_DIR", "DOCKER_CONFIG")
    script = (
        "import argparse, os\n"
        f"for name in {variables}:\n"
        "    path = os.environ[name]\n"
        "    assert path == os.devnull or os.listdir(path) == [], path\n"
    )
    assert ask(tmp_path, script + SCRIPT, RIGHT, CLOUDSDK_CONFIG=str(tmp_path)) == []


def test_a_script_that_takes_too_long(tmp_path: Path) -> None:
    script = "import argparse, time\nwhile True: time.sleep(0.1)\n"
    said = ask(tmp_path, script, WRONG, seconds=1)
    assert said == ["not checked: it parses no flags and logs nothing within 1 s"]


def test_a_refusal_counts_only_if_it_is_one_in_a_process_of_its_own(tmp_path: Path) -> None:
    script = (
        "import argparse\nseen = []\ndef once(text):\n    if seen: raise ValueError\n"
        "    seen.append(text)\n    return int(text)\n"
        "p = argparse.ArgumentParser()\np.add_argument('--seed', type=once)\np.parse_args()\n"
    )
    assert ask(tmp_path, script, "seed: {values: [1, 2, 3]}") == []


@pytest.mark.parametrize(
    "again",
    [
        "subprocess.call([sys.executable, *sys.argv])",
        "os.execv(sys.executable, [sys.executable, *sys.argv])",
    ],
)
def test_a_script_that_starts_itself_again(again: str, tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sys\nif 'AGAIN' not in os.environ:\n"
        f"    os.environ['AGAIN'] = '1'\n    {again}\n" + SCRIPT
    )
    assert ask(tmp_path, script, WRONG) == [NUMBERS.replace(":3:", ":7:")]


def test_an_environment_is_entered_as_its_command_does(tmp_path: Path) -> None:
    """A command that changes the environment runs with its words."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    fake = bin_folder / "uv"
    fake.write_text('#!/bin/sh\necho "$1" > entered\nshift\nexec "$@"\n')
    fake.chmod(0o755)
    path = os.pathsep.join([str(bin_folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    command = "[uv, run, python, train.py, '${args}']"
    assert ask(tmp_path, SCRIPT, WRONG, command=command, PATH=path) == [NUMBERS]
    assert (tmp_path / "entered").read_text() == "run\n"


def test_a_refusal_is_placed_at_the_flag_that_it_names(tmp_path: Path) -> None:
    script = (
        "import argparse\np = argparse.ArgumentParser()\ng = p.add_mutually_exclusive_group()\n"
        "g.add_argument('--a')\ng.add_argument('--b')\n"
    ) + PARSE
    [said] = ask(tmp_path, script, "a: {value: 1}, b: {value: 2}")
    assert said.startswith("parameters.b: train.py:5: argument --b: not allowed with")


def test_nothing_is_left_running(tmp_path: Path) -> None:
    """A launcher may start the script in a session of its own, where no signal of ours comes."""
    script = (
        "import os, subprocess, sys, time\nif 'AGAIN' not in os.environ:\n"
        "    own = {**os.environ, 'AGAIN': '1'}\n"
        "    for _ in range(2):\n"
        "        command = [sys.executable, *sys.argv]\n"
        "        p = subprocess.Popen(command, start_new_session=True, env=own)\n"
        "        open('pids', 'a').write(f'{p.pid}\\n')\n    time.sleep(100)\n" + SCRIPT
    )
    assert ask(tmp_path, script, WRONG) == [NUMBERS.replace(":3:", ":11:")]
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert pids  # the second is not started if the first was refused before
    while any(is_running(pid) for pid in pids):
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except FileNotFoundError:
        return False
