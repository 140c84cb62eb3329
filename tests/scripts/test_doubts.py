"""What is said of a script as a doubt: nobody here can know, or it may turn out well."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from deployer.scripts.script_text import OFFLINE, SourceModule, check_metric, find_line, find_logged
from tests.scripts.asking import PARSE, RIGHT, SCRIPT, WRONG, ask


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


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("NOT_THERE", ["NOT_THERE is not set here, so its name is used as the value"]),
        ("HF_TOKEN", []),
    ],
)
def test_a_variable_that_nobody_knows_here_is_a_doubt(
    variable: str, said: list[str], tmp_path: Path
) -> None:
    script = "import sys\nassert 'hidden' not in str(sys.argv)\n" + SCRIPT.replace(
        PARSE, "p.add_argument('--x')\n" + PARSE
    )
    command = f"[python, train.py, '--lr=${{envvar:{variable}}}', '${{args}}']"
    first, *others = ask(tmp_path, script, "x: {value: 1}", command=command, HF_TOKEN="hidden")
    assert first.startswith(
        f"doubt: command.[2]: train.py: argument --lr: invalid float value: '{variable}'"
    )
    assert others == [f"doubt: command: {one} | set it where the agents run" for one in said]


def test_the_runs_own_folders_are_known(tmp_path: Path) -> None:
    script = SCRIPT.replace(PARSE, "p.add_argument('--x')\n" + PARSE)
    command = "[python, train.py, '--x=${envvar:DEPLOYER_OUTPUT_DIR}', '${args}']"
    assert ask(tmp_path, script, RIGHT, command=command) == []


@pytest.mark.parametrize("parse", ["try:\n    p.parse_args()\nexcept SystemExit:\n    pass\n"])
def test_a_refusal_that_the_script_survives_is_a_doubt(parse: str, tmp_path: Path) -> None:
    (line,) = ask(tmp_path, SCRIPT.replace(PARSE, parse), WRONG, may_end=True)
    assert line.startswith("doubt: ")
    assert ", but the script goes on" in line


def test_the_very_end_of_a_range_is_a_doubt_for_a_type_of_the_scripts_own(tmp_path: Path) -> None:
    script = (
        "import argparse\ndef rate(text):\n    if not 0 < float(text) < 1: raise ValueError\n"
        "p = argparse.ArgumentParser()\np.add_argument('--rate', type=rate)\np.parse_args()\n"
    )
    random = {"method": "random", "more": "run_cap: 1\n"}
    (line,) = ask(tmp_path, script, "rate: {min: 0.0, max: 0.5}", **random)
    assert line.startswith(
        "doubt: parameters.rate: train.py:5: argument --rate: invalid rate value: '0.0'"
    )


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
def test_a_metric_that_no_call_logs(text: str, said: list[str]) -> None:
    module = SourceModule(Path("train.py"), ast.parse(text))
    found = list(check_metric({"metric": {"name": "los"}}, find_logged([module]), "train.py"))
    assert [one.message for one in found] == ["train.py does not log los" for _ in said]
    assert all(one.fix.startswith("did you mean loss?") for one in found)


def test_the_summary_of_a_metric_is_a_metric() -> None:
    text = "wandb.define_metric('loss', summary='min')\nwandb.log({'loss': 1})\n"
    logged = find_logged([SourceModule(Path("train.py"), ast.parse(text))])
    assert list(check_metric({"metric": {"name": "loss.min"}}, logged, "train.py")) == []


def test_a_flag_that_is_on_by_default_never_gets_its_false(tmp_path: Path) -> None:
    script = (
        "import argparse\np = argparse.ArgumentParser()\n"
        "p.add_argument('--amp', action=argparse.BooleanOptionalAction, default=True)\n"
    ) + PARSE
    values = "amp: {values: [true, false]}"
    command = "[python, train.py, '${args_no_boolean_flags}']"
    on = "train.py:3: --amp is on by default, and agents never pass --no-amp"
    assert ask(tmp_path, script, values, command=command) == [
        f"doubt: parameters.amp: {on} | default=False in the script, or a flag that takes a value"
    ]
    [refused] = ask(tmp_path, script, values)
    assert refused.endswith(
        "| have it take a value: it is on by default, and agents never pass --no-…"
    )


def test_a_list_of_which_not_all_is_asked_about(tmp_path: Path) -> None:
    values = ", ".join(map(str, range(10_001)))
    assert ask(tmp_path, SCRIPT, f"lr: {{values: [{values}]}}") == [
        "doubt: parameters.lr: only 10,000 of 10,001 values are checked | "
        "check the remaining values yourself"
    ]


@pytest.mark.parametrize(
    ("code", "warned"),
    [
        ('os.environ["WANDB_MODE"] = "offline"', True),
        ("os.environ['WANDB_DISABLED'] = 'true'", True),
        ("def main():\n    with wandb.init(project='p', mode='disabled'): pass", True),
        (
            "if __name__ == '__main__':\n    wandb.init(settings=wandb.Settings(mode='offline'))",
            True,
        ),
        ("if os.environ.get('DEBUG'):\n    wandb.init(mode='disabled')", False),
        ("open('x', mode='offline')\nwandb.init(mode='online')", False),
        ("wandb.init(mode='offline' if os.environ.get('DEBUG') else 'online')", False),
    ],
)
def test_a_script_that_takes_wandb_offline_is_a_doubt(code: str, warned: bool) -> None:
    module = SourceModule(Path("train.py"), ast.parse(f"import os, wandb\n{code}\n"))
    assert bool(find_line(module, OFFLINE)) == warned


def test_the_line_that_takes_wandb_offline_is_named(tmp_path: Path) -> None:
    script = "import os\nos.environ['WANDB_MODE'] = 'offline'\n" + SCRIPT
    assert ask(tmp_path, script, RIGHT) == [
        "doubt: program: train.py:2: wandb is offline or disabled from here on | "
        "remove it: a run that is not online never reaches its sweep"
    ]
    script = script.replace("MODE", "PROJECT")
    assert ask(tmp_path, script, RIGHT) == [
        "doubt: program: train.py:2: the script sets its own project | "
        "remove it: a run of a sweep belongs to the sweep's project"
    ]


KNOWN = "import argparse, wandb\np = argparse.ArgumentParser()\np.add_argument('--out')\n"
KNOWN += "args, _ = p.parse_known_args()\n"


@pytest.mark.parametrize(
    ("code", "ignored"),
    [
        ("wandb.init()\nprint(wandb.config.lr)", False),
        ("run = wandb.init()\nconfig = run.config\nprint(config['lr'])", False),
        ("with wandb.init() as tracked:\n    print(tracked.config.lr)", False),
        ("import wandb as wb\nwb.init(config=args)\nargs = wb.config", False),
        (
            "class A:\n    def go(self):\n        self.w = wandb.init()\n        f(self.w.config)",
            False,
        ),
        ("config = wandb.init().config", False),
        ("wandb.init()", True),
        ("wandb.init(config=vars(args))\nwandb.config.update(args)", True),
        ("wandb.init()\nwandb.config.lr = 1\nwandb.config['a'] = 2", True),
        ("model.config.lr", True),
    ],
)
def test_what_a_parser_leaves_over_arrives_by_the_runs_config(
    code: str, ignored: bool, tmp_path: Path
) -> None:
    body = "".join(f"    {line}\n" for line in code.splitlines())
    said = ask(tmp_path, f"{KNOWN}def main():\n{body}main()\n", RIGHT)
    doubt = "doubt: parameters.lr: --lr is ignored by train.py: its parser does not know it"
    assert [line.partition(" | ")[0] for line in said] == [doubt] * ignored


@pytest.mark.parametrize(
    ("choices", "values", "hint"),
    [
        ("[16, 32]", "[16, 64]", "in the script: type=int, as its choices are"),
        ("[0.5, 1]", "[0.5]", "in the script: type=float, as its choices are"),
        ("[16, 'auto']", "[16]", "in the script: write its choices as text, such as '16'"),
        ("[True, False]", "[true]", "in the script: write its choices as text, such as 'True'"),
        ("['16', 'auto']", "[auot]", "did you mean auto?"),
    ],
)
def test_choices_that_are_no_text_need_a_type(
    choices: str, values: str, hint: str, tmp_path: Path
) -> None:
    script = SCRIPT.replace("type=float", f"choices={choices}")
    assert {
        line.partition(" | ")[2] for line in ask(tmp_path, script, f"lr: {{values: {values}}}")
    } == {hint}


@pytest.mark.parametrize(
    ("flag", "never"),
    [
        ("action='store_true', default=True", "False"),
        ("action='store_false', default=False", "True"),
        ("action='store_true'", ""),
        ("action='count', default=1", ""),
        ("nargs='?', const=True, default=True, type=bool", ""),
    ],
)
def test_a_flag_that_sets_its_default_changes_nothing(
    flag: str, never: str, tmp_path: Path
) -> None:
    script = SCRIPT.replace("'--lr', type=float", f"'--amp', {flag}")
    command = "[python, train.py, '${args_no_boolean_flags}']"
    said = ask(tmp_path, script, "amp: {values: [true, false]}", command=command)
    doubts = [line for line in said if "can never be" in line]
    if not never:
        assert doubts == []
        return
    start = f"doubt: parameters.amp: train.py:3: --amp can never be {never}: "
    assert len(doubts) == 1
    assert doubts[0].startswith(start)
    assert doubts[0].endswith(f" | default={never} in the script")


@pytest.mark.slow(seconds=10)
def test_a_later_parser_is_waited_for_while_the_script_imports(tmp_path: Path) -> None:
    """As long as torch takes on a busy machine, or longer."""
    script = (
        "import argparse\nfirst = argparse.ArgumentParser(add_help=False)\n"
        "first.add_argument('--data')\nfirst.parse_known_args()\nimport heavy\n"
        "p = argparse.ArgumentParser(parents=[first])\np.add_argument('--lr', type=float)\n"
        "p.parse_args()"
    )
    heavy = {"heavy.py": "import time\ntime.sleep(7)\n"}
    assert ask(tmp_path, script, "lr: {values: [0.1, 0.2]}, data: {value: x}", files=heavy) == []
