"""What pods unpack: the same bytes for the same content, and nothing that should stay at home."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from deployer.errors import ConfigError
from deployer.images.code_archive import (
    MOST_PARTS,
    PART_BYTES,
    build_code_archive,
    build_supervisor_zip,
    list_left_out,
    main,
    warn_about_left_out,
)


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"content of {name}\n")


def list_names(code: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(code)) as archive:
        return archive.getnames()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    write(folder, "train.py", "lib/model.py", ".gitignore", "forgotten.py", "ignored.bin")
    (folder / ".gitignore").write_text("*.bin\n")
    git(folder, "init", "--quiet")
    return folder


def test_tracked_files_as_they_are_now(project: Path) -> None:
    git(project, "add", "train.py", "lib", ".gitignore")
    (project / "train.py").write_text("edited after git add\n")
    code = build_code_archive(project)
    assert list_names(code) == [".gitignore", "lib/model.py", "train.py"]
    assert list_left_out(project) == ["forgotten.py"]
    write(project, "one.py", "other.py", "third.py")
    assert warn_about_left_out(project) == (
        "agents do not get what git does not track: forgotten.py, one.py, other.py and 1 more "
        "(git add, or .gitignore)"
    )
    with tarfile.open(fileobj=io.BytesIO(code)) as archive:
        content = archive.extractfile("train.py")
        assert content is not None
        assert content.read() == b"edited after git add\n"
    assert list_names(build_code_archive(project / "lib")) == ["model.py"]


@pytest.fixture
def outer(project: Path, tmp_path: Path) -> Path:
    """Return a project with a submodule that has a submodule itself."""
    allowed = ("-c", "protocol.file.allow=always", "-c", "user.name=a", "-c", "user.email=a@b")
    inner = tmp_path / "inner"
    write(inner, "inner.py")
    git(inner, "init", "--quiet")
    git(inner, "add", "-A")
    git(inner, *allowed, "commit", "-qm", "inner")
    git(project, "add", "train.py")
    git(project, *allowed, "submodule", "--quiet", "add", str(inner), "vendor/inner")
    git(project, *allowed, "commit", "-qm", "outer")
    return project


def test_the_files_of_a_submodule_are_sent(outer: Path) -> None:
    names = list_names(build_code_archive(outer))
    assert names == [".gitmodules", "train.py", "vendor/inner/inner.py"]


def test_a_submodule_that_is_empty_here_is_named(outer: Path) -> None:
    git(outer, "submodule", "--quiet", "deinit", "--force", "vendor/inner")
    assert list_names(build_code_archive(outer)) == [".gitmodules", "train.py"]
    (outer / ".gitignore").write_text("*")
    assert warn_about_left_out(outer) == (
        "agents do not get the files of vendor/inner, a submodule that is empty here "
        "(git submodule update --init --recursive)"
    )


def test_a_deleted_file_is_left_out(project: Path) -> None:
    git(project, "add", "train.py", "lib")
    (project / "train.py").unlink()
    assert list_names(build_code_archive(project)) == ["lib/model.py"]


def test_a_repository_with_nothing_tracked_gives_what_is_not_ignored(project: Path) -> None:
    names = list_names(build_code_archive(project))
    assert names == [".gitignore", "forgotten.py", "lib/model.py", "train.py"]


def test_without_git_what_programs_leave_behind_stays(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "lib/a.py", ".env", ".venv/x", "lib/__pycache__/a.pyc", "wandb/run")
    write(tmp_path, "environment/pyvenv.cfg", "environment/lib/x.py")
    assert list_names(build_code_archive(tmp_path)) == ["lib/a.py", "train.py"]


def test_same_content_same_bytes(project: Path, tmp_path: Path) -> None:
    write(tmp_path / "other", "train.py", "lib/model.py")
    git(project, "add", "train.py", "lib")
    os.utime(project / "train.py", (1, 1))
    assert build_code_archive(project) == build_code_archive(tmp_path / "other")
    (project / "train.py").write_text("another\n")
    assert build_code_archive(project) != build_code_archive(tmp_path / "other")


def test_links_and_programs_stay_what_they_are(tmp_path: Path) -> None:
    write(tmp_path, "run.sh", "train.py")
    (tmp_path / "run.sh").chmod(0o775)
    (tmp_path / "link.py").symlink_to("train.py")
    os.link(tmp_path / "train.py", tmp_path / "twin.py")
    with tarfile.open(fileobj=io.BytesIO(build_code_archive(tmp_path))) as archive:
        members = {member.name: member for member in archive}
        assert archive.extractfile("twin.py").read() == b"content of train.py\n"  # type: ignore[union-attr]
    assert (members["run.sh"].mode, members["train.py"].mode) == (0o755, 0o644)
    assert members["link.py"].linkname == "train.py"
    assert {(m.uid, m.gid, m.uname) for m in members.values()} == {(0, 0, "")}


def test_too_much_code_names_its_biggest_files(tmp_path: Path) -> None:
    write(tmp_path, "train.py")
    (tmp_path / "weights.pt").write_bytes(os.urandom(PART_BYTES * MOST_PARTS))
    with pytest.raises(ConfigError) as caught:
        build_code_archive(tmp_path)
    assert "10 ConfigMaps hold 9,000 KiB; its biggest files: weights.pt (9,000 KiB), train" in (
        caught.value.message
    )
    assert "on a volume (`pvc:`)" in caught.value.hint
    assert "`code: image`" in caught.value.hint


def test_no_code_at_all(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no code found"):
        build_code_archive(tmp_path)


def test_command_writes_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "train.py")
    monkeypatch.chdir(tmp_path)
    assert main(["supervisor", str(tmp_path.parent / "agent.zip")]) == 0
    assert (tmp_path.parent / "agent.zip").read_bytes() == build_supervisor_zip()
    assert main(["code", str(tmp_path.parent / "code.tar.gz")]) == 0
    assert list_names((tmp_path.parent / "code.tar.gz").read_bytes()) == ["train.py"]
    assert main(["else"]) == 2


def run_zip(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "agent.zip").write_bytes(build_supervisor_zip())
    command = [sys.executable, "-I", "-S", str(folder / "agent.zip"), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("part_bytes", [1 << 20, 100])
def test_supervisor_runs_from_its_zip_file_and_enters_the_code(
    tmp_path: Path, part_bytes: int
) -> None:
    write(tmp_path / "project", "train.py", "lib/model.py")
    archive = tmp_path / "code.tar.gz"
    code = build_code_archive(tmp_path / "project")
    parts = [code[start : start + part_bytes] for start in range(0, len(code), part_bytes)]
    for number, part in enumerate(parts):
        end = f".{number:02}" if len(parts) > 1 else ""
        Path(f"{archive}{end}").write_bytes(part)
    answer = run_zip(
        tmp_path,
        "me/proj/sweep",
        "--folder=agent",  # beside the code, so that we see where it works
        WANDB_API_KEY="k" * 40,
        DEPLOYER_CODE_ARCHIVE=str(archive),
        DEPLOYER_CODE_FOLDER=str(tmp_path / "work/code"),
        DEPLOYER_POD_ANNOTATIONS=str(tmp_path / "annotations"),
    )
    assert answer.returncode == 78, answer.stderr
    assert "the package wandb is not installed for" in answer.stdout
    assert (tmp_path / "work/code/lib/model.py").read_text() == "content of lib/model.py\n"
    assert (tmp_path / "work/code/agent/status.json").exists()


@pytest.mark.parametrize("links", [("python3",), ("python3", "python")])
def test_python_means_the_one_that_runs_the_supervisor(
    tmp_path: Path, links: tuple[str, ...]
) -> None:
    (tmp_path / "image").mkdir()
    for link in links:
        (tmp_path / "image" / link).symlink_to(os.path.realpath(sys.executable))
    (tmp_path / "agent.zip").write_bytes(build_supervisor_zip())
    code = (
        "import os, shutil; from agent.pod import prepend_python; prepend_python(os.environ); "
        "print(shutil.which('python'), os.environ['PATH'])"
    )
    folder = "image" if "python" in links else "bin"
    for _ in range(2):  # a container may be started again in its pod
        answer = subprocess.run(
            [tmp_path / "image/python3", "-c", code],
            env={"PYTHONPATH": f"{tmp_path}/agent.zip", "HOME": str(tmp_path), "PATH": "/nowhere"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert answer.stdout == f"{tmp_path}/{folder}/python {tmp_path}/{folder}:/nowhere\n"


def test_prologue_of_a_run_is_found_in_the_zip_file(tmp_path: Path) -> None:
    (tmp_path / "agent.zip").write_bytes(build_supervisor_zip())
    answer = subprocess.run(
        [sys.executable, "-c", "import sitecustomize; print(sitecustomize.__file__)"],
        env={"PYTHONPATH": f"{tmp_path}/agent.zip/agent/prologue"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == f"{tmp_path}/agent.zip/agent/prologue/sitecustomize.py"


def test_annotation_of_the_pod_becomes_the_signal_to_drain(tmp_path: Path) -> None:
    annotations = tmp_path / "annotations"
    annotations.write_text('deployer.dev/agent="ab-1"\n')
    code = (
        "import signal, sys, threading\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
        "from agent.pod import await_drain\n"
        f"threading.Thread(target=await_drain, args=({str(annotations)!r},), daemon=True).start()\n"
        "print('waiting', flush=True)\n"
        "print(signal.sigwait([signal.SIGUSR1]).name)"
    )
    (tmp_path / "agent.zip").write_bytes(build_supervisor_zip())
    command = [sys.executable, "-u", "-c", code]
    environment = {"PYTHONPATH": f"{tmp_path}/agent.zip"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        annotations.write_text('deployer.dev/agent="ab-1"\ndeployer.dev/drain="true"\n')
        assert process.stdout.read() == f"{signal.SIGUSR1.name}\n"
