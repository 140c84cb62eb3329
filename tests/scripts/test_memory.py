"""A script that was asked is not asked again until something has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.asking import RIGHT, SCRIPT, ask


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
