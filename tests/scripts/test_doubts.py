"""What is said of a script as a doubt: nobody here can know, or it may turn out well."""

from __future__ import annotations

from pathlib import Path

import pytest

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
        ("NOT_THERE", ["NOT_THERE is not set here, so its name is taken for its value"]),
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


def test_a_list_of_which_not_all_is_asked_about(tmp_path: Path) -> None:
    values = ", ".join(map(str, range(10_001)))
    assert ask(tmp_path, SCRIPT, f"lr: {{values: [{values}]}}") == [
        "doubt: parameters.lr: only 10,000 of 10,001 values are asked about | "
        "look at the others yourself"
    ]
