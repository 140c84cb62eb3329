"""What goes into an image, and the tag that says so."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from deployer.config.image import ImageConfig
from deployer.errors import ConfigError
from deployer.images.context import (
    copy_context,
    is_hopeless,
    is_ignored,
    parse_dockerignore,
    read_inputs,
    warn_about_context,
)

PROJECT = Path(__file__).parents[2]
# The file, then one that is kept and one that is not; as docker's documentation and tests have it.
IGNORING = (
    ("*.md", "docs/a.md", "a.md"),
    ("**/*.md", "a.txt", "docs/deep/a.md"),
    ("**/*.md", "a.txt", "a.md"),
    ("*.md\n!README.md", "README.md", "CHANGES.md"),
    ("data", "database/x", "data/x/y"),
    ("/data/", "src/data/x", "data/x"),
    ("*/temp*", "a/b/temp", "a/temporary/x"),
    ("*\n!src\nsrc/**/*.pyc", "src/a/b.py", "src/a/b.pyc"),
    ("*\n!src/keep", "src/keep/x", "src/other/x"),
    ("a?b", "a/b", "axb"),
    ("[a-c]x", "dx", "bx"),
    ("[^a-c]x", "bx", "dx"),
    ("# note\n\n  x.txt  ", "# note", "x.txt"),
    ("a\\*b", "axb", "a*b"),
    ("x.y", "xzy", "x.y"),
    ("**", "", "any/thing"),
)


@pytest.mark.parametrize(("text", "kept", "ignored"), IGNORING)
def test_dockerignore(text: str, kept: str, ignored: str) -> None:
    rules = parse_dockerignore(text)
    assert is_ignored(rules, ignored)
    assert not kept or not is_ignored(rules, kept)


def test_folders_that_nobody_walks_through() -> None:
    rules = parse_dockerignore("*\n!src/keep\n!**/*.proto")
    assert not is_hopeless(rules, "data")  # a .proto may be in it
    rules = parse_dockerignore("*\n!src/keep\n")
    assert is_hopeless(rules, "data")
    assert is_hopeless(rules, "src/other")
    assert not is_hopeless(rules, "src")
    assert not is_hopeless(rules, "src/keep/deep")


def _write_project(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "Dockerfile").write_text("ARG VARIANT=cuda\nFROM scratch\nCOPY . /\n")
    (folder / "train.py").write_text("print(1)\n")
    (folder / "run.sh").write_text("echo\n")
    (folder / "run.sh").chmod(0o700)
    (folder / "link").symlink_to("train.py")
    return folder


def test_tag_is_the_hash_of_what_goes_in(tmp_path: Path) -> None:
    folder, settings = _write_project(tmp_path / "p"), ImageConfig()
    tag = read_inputs(settings, folder).tag
    assert len(tag) == 16
    assert read_inputs(settings, _write_project(tmp_path / "elsewhere")).tag == tag
    (folder / "train.py").touch()
    (folder / "train.py").chmod(0o600)
    assert read_inputs(settings, folder).tag == tag
    assert read_inputs(replace(settings, builder="podman", ca="x"), folder).tag == tag
    tags = {tag}
    for changed in (
        replace(settings, build_args={"BASE": "x"}),
        replace(settings, variant="cpu"),
        replace(settings, platform="linux/arm64"),
    ):
        tags.add(read_inputs(changed, folder).tag)
    for name, text in (("train.py", "print(2)\n"), ("new.py", ""), ("Dockerfile", "ARG VARIANT")):
        (folder / name).write_text(text)
        tags.add(read_inputs(settings, folder).tag)
    (folder / "train.py").chmod(0o755)
    tags.add(read_inputs(settings, folder).tag)
    (folder / "link").unlink()
    (folder / "link").symlink_to("run.sh")
    tags.add(read_inputs(settings, folder).tag)
    assert len(tags) == 9


def test_git_decides_without_a_dockerignore(tmp_path: Path) -> None:
    folder = _write_project(tmp_path / "p")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "add", "train.py", "Dockerfile"], cwd=folder, check=True)
    inputs = read_inputs(ImageConfig(), folder)
    assert inputs.files == ("Dockerfile", "train.py")
    assert "the image does not get what git does not track: link, run.sh" in warn_about_context(
        inputs
    )
    (folder / ".dockerignore").write_text("Dockerfile\n.git\n.dockerignore\n")
    inputs = read_inputs(ImageConfig(), folder)
    assert inputs.files == ("link", "run.sh", "train.py")
    assert warn_about_context(inputs) == ""


def test_copy_is_what_the_tag_says(tmp_path: Path) -> None:
    folder = _write_project(tmp_path / "p")
    (folder / "train.py").chmod(0o600)  # nobody but root could read it in the image
    (tmp_path / "copy").mkdir()
    copy_context(read_inputs(ImageConfig(), folder), tmp_path / "copy")
    copied = {path.name: path for path in (tmp_path / "copy").iterdir()}
    assert set(copied) == {"Dockerfile", "train.py", "run.sh", "link"}
    assert copied["train.py"].stat().st_mode & 0o777 == 0o644
    assert copied["run.sh"].stat().st_mode & 0o777 == 0o755
    assert copied["link"].readlink() == Path("train.py")
    settings = ImageConfig()
    assert read_inputs(settings, tmp_path / "copy").tag == read_inputs(settings, folder).tag


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Dockerfile: file not found") as raised:
        read_inputs(ImageConfig(), tmp_path)
    assert "dockerfile: …" in raised.value.hint
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    with pytest.raises(ConfigError, match=r"image\.context: folder .+ not found"):
        read_inputs(ImageConfig(context="src"), tmp_path)
    with pytest.raises(ConfigError, match="Dockerfile has no argument VARIANT"):
        read_inputs(ImageConfig(variant="cpu"), tmp_path)


def test_the_project_itself() -> None:
    files = read_inputs(ImageConfig(variant="cpu"), PROJECT).files
    assert {"pyproject.toml", "uv.lock", "k8s/agent.yaml", "trainer/__main__.py"} <= set(files)
    assert {"deployer/agent/supervisor.py", "deployer/backend/graphql/schema.graphql"} <= set(files)
    assert not [name for name in files if name.startswith(("tests", ".")) or ".pyc" in name]


def test_one_version_of_uv() -> None:
    makefile, dockerfile = (PROJECT / name for name in ("Makefile", "Dockerfile"))
    wanted = re.search(r"^UV_VERSION := (\S+)", makefile.read_text(), re.MULTILINE)
    assert wanted is not None
    assert f"ARG UV_VERSION={wanted[1]}\n" in dockerfile.read_text()
