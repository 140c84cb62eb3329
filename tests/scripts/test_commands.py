"""Commands that start a script in other ways, and scripts of several files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.scripts.asking import RAN, ask

SCRIPT = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float)\n"
PARSE = "p.parse_args()\n"
SCRIPT += PARSE
WRONG, RIGHT = "lr: {value: x}", "lr: {value: 1}"
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


def test_flags_of_other_packages_are_doubts_where_other_versions_may_run(tmp_path: Path) -> None:
    library = "import argparse\ndef make():\n    p = argparse.ArgumentParser()\n"
    library += "    p.add_argument('--lr', type=float)\n    return p\n"
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "flagmaker.py").write_text(library)
    project = tmp_path / "project"
    script = "import argparse, flagmaker\nflagmaker.make().parse_args()\n"

    def said(same: bool) -> str:
        (line,) = ask(project, script, WRONG, same_packages=same, PYTHONPATH=str(tmp_path / "lib"))
        return line.partition(":")[0]

    assert (said(True), said(False)) == ("parameters.lr", "doubt")


def test_what_only_the_place_of_the_runs_can_tell_is_a_doubt(tmp_path: Path) -> None:
    script = (
        "import argparse, os\n"
        "def there(path):\n    if not os.path.exists(path): raise ValueError\n"
        "p = argparse.ArgumentParser()\np.add_argument('--data', type=there)\n"
        "p.add_argument('--device', choices=['cpu'])\np.parse_args()\n"
    )

    def asked(parameters: str, same: bool) -> str:
        (line,) = ask(tmp_path, script, parameters, same_packages=same)
        return line.partition(":")[0]

    assert asked("data: {value: /mnt/data}", True) == "parameters.data"
    assert asked("data: {value: /mnt/data}", False) == "doubt"
    assert asked("device: {value: cuda}", True) == "doubt"


def test_a_report_is_remembered_until_something_changes(tmp_path: Path) -> None:
    memory, project = tmp_path / "memory", tmp_path / "project"
    count = tmp_path / "count"
    note = f"open({str(count)!r}, 'a').write('x')\n"
    files = {"flags.py": SCRIPT}
    script = note + "from flags import p\n"

    def asked(parameters: str = RIGHT, **files: str) -> int:
        before = count.read_text() if count.exists() else ""
        named = {f"{name}.py": text for name, text in files.items()}
        assert ask(project, script, parameters, files=named, memory=memory) == []
        return len(count.read_text()) - len(before)

    assert asked(**{name[:-3]: text for name, text in files.items()}) == 1
    assert asked() == 0
    assert asked(flags=SCRIPT + "\n") == 1
    assert asked("lr: {value: 2}") == 1
    assert asked() == 0


@pytest.mark.parametrize("read", ["json.load(open('models/a.json'))", "os.listdir('models')"])
def test_a_pass_is_asked_again_once_what_it_read_has_changed(read: str, tmp_path: Path) -> None:
    script = (
        "import argparse, json, os\np = argparse.ArgumentParser()\n"
        f"p.add_argument('--model', choices={read})\np.parse_args()\n"
    )
    project, memory, config = tmp_path / "project", tmp_path / "memory", "model: {value: a.json}"
    files = {"models/a.json": '["a.json"]'}
    assert ask(project, script, config, files=files, memory=memory) == []
    (project / "models/a.json").unlink()
    [said] = ask(project, script, config, files={"models/b.json": "[]"}, memory=memory)
    assert said != ""


def test_a_refusal_is_asked_again(tmp_path: Path) -> None:
    """What a parser reads besides the project's modules, nobody can know."""
    script = (
        "import argparse, json\np = argparse.ArgumentParser()\n"
        "p.add_argument('--model', choices=json.load(open('models.json')))\np.parse_args()\n"
    )

    def asked(models: str) -> list[str]:
        files = {"models.json": models}
        memory = tmp_path / "memory"
        return ask(tmp_path, script, "model: {value: mlp}", files=files, memory=memory)

    assert len(asked('["cnn"]')) == 1
    assert asked('["cnn", "mlp"]') == []


def test_a_refusal_counts_only_if_it_is_one_in_a_process_of_its_own(tmp_path: Path) -> None:
    script = (
        "import argparse\nseen = []\ndef once(text):\n    if seen: raise ValueError\n"
        "    seen.append(text)\n    return int(text)\n"
        "p = argparse.ArgumentParser()\np.add_argument('--seed', type=once)\np.parse_args()\n"
    )
    assert ask(tmp_path, script, "seed: {values: [1, 2, 3]}") == []


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("NOT_THERE", ["NOT_THERE is not set here, so its name is taken for its value"]),
        ("HF_TOKEN", []),
    ],
)
def test_a_variable_that_nobody_knows_here_is_a_doubt(
    variable: str, said: list[str], tmp_path: Path
) -> None:
    script = "import sys\nassert 'hidden' not in str(sys.argv)\n" + SCRIPT.replace(PARSE, OTHER)
    command = f"[python, train.py, '--lr=${{envvar:{variable}}}', '${{args}}']"
    first, *others = ask(tmp_path, script, "x: {value: 1}", command=command, HF_TOKEN="hidden")
    assert first.startswith(f"doubt: parameters: train.py:5: --lr takes float, not '{variable}'")
    assert others == [f"doubt: command: {one} | set it where the agents run" for one in said]


@pytest.mark.parametrize(
    "parse",
    [
        "try:\n    p.parse_args()\nexcept SystemExit:\n    pass\n",
        "import contextlib\nwith contextlib.suppress(SystemExit):\n    p.parse_args()\n",
        "def read():\n    return p.parse_args()\ntry:\n    read()\nexcept:\n    pass\n",
        "p.exit_on_error = False\np.parse_args()\n",
    ],
)
def test_a_refusal_that_the_script_may_survive_is_a_doubt(parse: str, tmp_path: Path) -> None:
    script = SCRIPT.replace(PARSE, parse)
    assert parse in script
    (line,) = ask(tmp_path, script, WRONG)
    assert line.startswith("doubt: ")


def test_the_very_end_of_a_range_is_a_doubt_for_a_type_of_the_scripts_own(tmp_path: Path) -> None:
    script = (
        "import argparse\ndef rate(text):\n    if not 0 < float(text) < 1: raise ValueError\n"
        "p = argparse.ArgumentParser()\np.add_argument('--rate', type=rate)\np.parse_args()\n"
    )
    random = {"method": "random", "more": "run_cap: 1\n"}
    (line,) = ask(tmp_path, script, "rate: {min: 0.0, max: 0.5}", **random)
    assert line.startswith("doubt: parameters.rate: train.py:5: --rate takes rate, not '0.0'")


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


METRIC = "metric: {name: los, goal: minimize}\n"
LOGS = [
    ("wandb.log({'loss': 1, 'val': {'acc': 2}})", ["known"]),
    ("run.log({'loss': 1})\nrun.summary['best'] = 1", ["known"]),
    ("row = {'loss': 1}\nrow['acc'] = 2\nrun.log(row)", ["known"]),
    ("run.log({'los': 1})", []),
    ("run.log({f'{split}/los': 1})", []),
    ("run.log(compute())", []),
    ("row = {'loss': 1}\nrow.update(more)\nrun.log(row)", []),
    ("run.log({**more, 'loss': 1})", []),
    ("import lightning\nself.log('loss', 1)", []),
    ("from x import WandbCallback\nrun.log({'loss': 1})", []),
    ("wandb.define_metric('*', summary='min')\nrun.log({'loss': 1})", []),
    ("wandb.define_metric('loss', summary='min')\nrun.log({'loss': 1})", ["known"]),
    ("import math\nmath.log(2)\nrun.log({'loss': 1})", ["known"]),
    ("", []),
]


@pytest.mark.parametrize(("text", "said"), LOGS, ids=[one[0] for one in LOGS])
def test_a_metric_that_no_call_logs(text: str, said: list[str], tmp_path: Path) -> None:
    found = ask(tmp_path, "def train():\n    " + text.replace("\n", "\n    "), WRONG, more=METRIC)
    doubts = [one for one in found if one.startswith("doubt")]
    assert len(doubts) == len(said)
    for one in doubts:
        assert one.startswith("doubt: metric.name: train.py logs no los | did you mean loss?")


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


def test_the_summary_of_a_metric_is_a_metric(tmp_path: Path) -> None:
    script = "import wandb\nwandb.define_metric('loss', summary='min')\n"
    metric = "metric: {name: loss.min, goal: minimize}\n"
    script += SCRIPT + "wandb.log({'loss': 1})\n"
    assert ask(tmp_path, script, RIGHT, more=metric) == []


def test_a_flag_that_is_on_by_default_never_gets_its_false(tmp_path: Path) -> None:
    script = (
        "import argparse\np = argparse.ArgumentParser()\n"
        "p.add_argument('--amp', action=argparse.BooleanOptionalAction, default=True)\n"
    ) + PARSE
    values = "amp: {values: [true, false]}"
    command = "[python, train.py, '${args_no_boolean_flags}']"
    on = "train.py:3: --amp is on by default, and no agent writes --no-amp"
    assert ask(tmp_path, script, values, command=command) == [
        f"doubt: parameters.amp: {on} | default=False in the script, or a flag that takes a value"
    ]
    [refused] = ask(tmp_path, script, values)
    assert refused.endswith(
        "| have it take a value: it is on by default, and no agent writes --no-…"
    )


def test_a_refusal_is_placed_at_the_flag_that_it_names(tmp_path: Path) -> None:
    script = (
        "import argparse\np = argparse.ArgumentParser()\ng = p.add_mutually_exclusive_group()\n"
        "g.add_argument('--a')\ng.add_argument('--b')\n"
    ) + PARSE
    [said] = ask(tmp_path, script, "a: {value: 1}, b: {value: 2}")
    assert said.startswith("parameters.b: train.py refuses its command: argument --b: not allowed")


def test_a_list_of_which_not_all_is_asked_about(tmp_path: Path) -> None:
    values = ", ".join(map(str, range(10_001)))
    assert ask(tmp_path, SCRIPT, f"lr: {{values: [{values}]}}") == [
        "doubt: parameters.lr: only 10,000 of 10,001 values are asked about | "
        "look at the others yourself"
    ]
