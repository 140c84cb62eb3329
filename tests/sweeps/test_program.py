"""What is refused or doubted about a sweep's command and program before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deployer.errors import ConfigError
from deployer.sweeps.program import check_program, find_missing_scripts
from deployer.sweeps.sweep_file import parse_sweep
from tests.sweeps.sweep_texts import errors_of, grid

LR = "lr: {values: [1, 2]}"


def complaint_about(config: dict[str, Any], folder: Path) -> str:
    try:
        check_program(config, folder, "s.yaml")
    except ConfigError as error:
        return f"{error.message} | {error.hint}"
    return ""


@pytest.mark.parametrize(
    ("macro", "hint"),
    [("${interpeter}", "did you mean ${interpreter}?"), ("${arg}", "did you mean ${args}?")],
)
def test_an_unknown_macro_is_named(macro: str, hint: str) -> None:
    text = grid(LR, f"command: ['{macro}', '${{args}}']\n")
    said = f"s.yaml:5: command[0]: {macro} is not a macro, so the agent would drop it"
    assert errors_of(text) == [(said, hint)]


def test_a_macro_of_the_environment_is_written_in_capitals() -> None:
    assert errors_of(grid(LR, "command: [python, '${envvar:Home}', '${args}']\n"))
    parse_sweep(grid(LR, "command: [python, '${envvar:HOME}/x.py', '${args}']\n"), "s.yaml")


@pytest.mark.parametrize("last", ["", ", 'sh -c ${args}'"])
def test_a_command_without_parameters_is_doubtful(last: str) -> None:
    (warning,) = parse_sweep(grid(LR, f"command: [python, train.py{last}]\n"), "s.yaml").warnings
    assert warning == (
        "s.yaml:5: command: no ${args}: a script that does not read wandb.config runs the same"
        " every time (add '${args}' as a separate word)"
    )


@pytest.mark.parametrize("macro", ["args", "args_no_hyphens", "args_json_file"])
def test_each_form_of_the_parameters_is_enough(macro: str) -> None:
    text = grid(LR, f"command: [python, train.py, '${{{macro}}}']\n")
    assert parse_sweep(text, "s.yaml").warnings == ()


def test_a_program_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    assert complaint_about({"program": "train.py"}, tmp_path) == ""
    assert complaint_about({"program": "trian.py"}, tmp_path) == (
        f"s.yaml: program: trian.py: file not found in {tmp_path} | did you mean train.py?"
    )
    assert complaint_about({"program": "."}, tmp_path) == (
        "s.yaml: program: .: is a folder without __main__.py | "
        "cd to the folder of the script, and name the sweep file from there"
    )


@pytest.mark.parametrize(("below", "up"), [("sweeps", ".."), ("a/b", "../..")])
@pytest.mark.parametrize("name", ["train.py", "src/train.py", "package"])
def test_a_program_of_a_folder_above_is_started_from_there(
    name: str, below: str, up: str, tmp_path: Path
) -> None:
    folder = tmp_path / below
    for file in (folder / "trains.py", tmp_path / name):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    if name == "package":
        (tmp_path / name).unlink()
        (tmp_path / name).mkdir()
        (tmp_path / name / "__main__.py").touch()
    said = complaint_about({"program": name, "command": ["python", name]}, folder)
    assert said.partition(" | ")[2] == (f"cd {up}, and name the sweep file from there")


@pytest.mark.parametrize("word", ["env", "${env}", "./A=1", "a-b=c"])
def test_a_command_may_set_variables_by_env(word: str) -> None:
    parse_sweep(grid(LR, f"command: ['{word}', A=1, python, train.py, '${{args}}']\n"), "s.yaml")


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (["python", "-u", "train.py", "${args}"], True),
        (["python3.11", "lost.py", "${args}"], False),
        (["${env}", "${interpreter}", "-u", "${program}"], False),
        (["./launch.sh", "${program}"], False),
        (["python", "-m", "trainer"], True),
        (["python", "-m", "${program}"], True),
        (["torchrun", "--nproc", "2", "other.py"], True),
    ],
)
def test_what_the_command_starts_is_looked_for(
    tmp_path: Path, command: list[str], found: bool
) -> None:
    (tmp_path / "train.py").touch()
    config = {"program": "lost.py", "command": command}
    assert (complaint_about(config, tmp_path) == "") == found


def test_a_script_that_is_not_committed_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"train\.py: file not found at commit ab12") as one:
        check_program({"program": "train.py"}, tmp_path, "s.yaml", "ab12")
    assert one.value.hint == "agents get only committed files: git add train.py, git commit"


def test_a_script_above_the_folder_is_in_no_archive(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    folder = tmp_path / "sweeps"
    folder.mkdir()

    def said(archived: bool, commit: str = "") -> list[str]:
        missing = find_missing_scripts({"program": "../train.py"}, folder, commit, archived)
        return [f"{one.message} | {one.fix}" for one in missing]

    assert said(archived=False) == []
    assert said(archived=True) == [
        f"../train.py is outside {folder}, and pods get only that folder | "
        f"cd {tmp_path}, write train.py, and name the sweep file from there"
    ]
    assert said(archived=True, commit="ab12")[0].endswith("name a folder that has train.py")


@pytest.mark.parametrize(
    "command",
    [
        "['${env}', '${args_no_hyphens}', python, train.py]",
        "['${interpreter}', -c, 'import x', '${args}']",
        "[papermill, '${program}', out.ipynb, '${args}']",
    ],
)
def test_unusual_commands_that_run_are_not_refused(command: str) -> None:
    text = grid(LR, f"command: {command}\n").replace("train.py", "train.ipynb", 1)
    parse_sweep(text, "s.yaml")


def test_a_job_of_launch_beside_a_program_is_not_refused() -> None:
    assert parse_sweep(grid(LR, "job: a/b/c:latest\n"), "s.yaml").warnings == ()


@pytest.mark.parametrize(
    ("words", "overriding"),
    [
        ("'${args}', --epochs=3, --lr=0.01", "--lr=0.01"),
        ("'${args}', --lr, '0.01'", "--lr"),
        ("'${args_no_equals}', -lr=3", "-lr=3"),
        ("'${args_no_hyphens}', lr=3", "lr=3"),
        ("'${args_append_hydra}', +lr=3", "+lr=3"),
        ("'${args}', --batch-size=8", "--batch-size=8"),
    ],
)
def test_a_flag_that_overrides_a_swept_parameter_is_refused(words: str, overriding: str) -> None:
    """Every run would have the same value, and the ranking would show others."""
    text = grid(f"{LR}\nbatch_size: {{values: [8, 16]}}", f"command: [python, t.py, {words}]\n")
    [(said, _)] = errors_of(text)
    assert f": '{overriding}' comes after the flags of the parameters" in said


@pytest.mark.parametrize(
    "words",
    [
        "--lr=0.01, '${args}'",
        "'${args}', lr, --learning_rate=3",
        "'${args_json}', --lr=0.01",
        "'${args}', --width=4",
    ],
)
def test_other_flags_are_left_alone(words: str) -> None:
    text = grid(f"{LR}\nwidth: {{value: 4}}", f"command: [python, t.py, {words}]\n")
    assert parse_sweep(text, "s.yaml").warnings == ()


def test_a_flag_that_overrides_a_constant_is_doubtful() -> None:
    text = grid(f"{LR}\nwidth: {{value: 4}}", "command: [t.py, '${args}', --width=8]\n")
    (warning,) = parse_sweep(text, "s.yaml").warnings
    assert warning.startswith("s.yaml:6: command[2]: '--width=8' comes after the flags of the ")
