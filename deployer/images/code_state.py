"""The state of the code that ran: its commit, what was changed since, and how to have it again."""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from deployer.config import paths
from deployer.config.code import Code
from deployer.config.deployer_yaml import FILE_NAME
from deployer.config.redaction import find_secret
from deployer.errors import ConfigError, DeployerError
from deployer.images.code import SHORT, ensure_mirror, name_checkouts
from deployer.images.code_archive import LOCK_END, list_files
from deployer.images.git import ensure_checkout, find_commit, find_root, get_remote, run_git
from deployer.kube.names import build_hash

LOG = logging.getLogger(__name__)

MOST_DIFF_BYTES = 256 * 1024
# A folder without git may hold data sets, too; each file is a line of the lock file.
MOST_FILES_BYTES = 64 << 20
MOST_FILES = 2000
DIGITS = 16  # of a file's SHA-256: it is told from another version, and no attacker is meant
MOST_SHOWN = 3
# What trainers write into their folder again and again: logs, tables, models, pictures.
WRITTEN = frozenset(
    (
        *(".log", ".out", ".err", ".txt", ".csv", ".tsv", ".jsonl", ".db", ".sqlite"),
        *(".pt", ".pth", ".ckpt", ".safetensors", ".onnx", ".h5", ".npy", ".npz", ".pkl"),
        *(".png", ".jpg", ".svg", ".pdf", ".parquet"),
    )
)
FETCH = "git fetch where it was made"
RUN_IT_AGAIN = "git checkout what ran, or run the sweep again: deployer up"


@dataclass(frozen=True)
class CodeState:
    """What ran: a commit of `repository`, in its folder `folder`, with `diff` of tracked files.

    Without git, `files` are the checksums of what was there. `left_out` says why there is neither.
    """

    folder: str = ""
    commit: str = ""
    repository: str = ""
    diff: str = ""
    left_out: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


def read_state(code: Code, environment: Mapping[str, str], apart: Sequence[Path] = ()) -> CodeState:
    """Return the state of the code that agents are about to run.

    What lies in `apart` is no part of it: data sets, deployer's own files.
    """
    has_git = shutil.which("git", path=environment.get("PATH"))
    root = find_root(code.folder, environment) if has_git else None
    commit = find_commit(root, environment, "HEAD") if root else None
    if root is None or commit is None:
        return _read_files(code.folder, apart)
    inside = code.folder.resolve().relative_to(root.resolve()).as_posix()
    diff, left_out = _read_diff(root, environment, apart)
    repository = code.repository if code.commit else get_remote(root, environment)
    return CodeState("" if inside == "." else inside, commit, repository, diff, left_out)


def restore_code(
    state: CodeState,
    folder: Path,
    environment: Mapping[str, str],
    apart: Sequence[Path] = (),
) -> Code:
    """Return the code of a state: the project's folder if it is in it, else a checkout of it.

    Raises ConfigError where that cannot be had again.
    """
    if not state.commit:
        _check_files(state, folder)
        return Code(folder)
    now = replace(read_state(Code(folder), environment, apart), repository=state.repository)
    if now == state and not state.left_out:
        return Code(folder)
    if state.left_out:
        said = f"what was changed since {state.commit[:SHORT]} is not known: it {state.left_out}"
        raise ConfigError(str(folder), said, RUN_IT_AGAIN)
    repository = _find_repository(state, folder, environment)
    end = f"-{build_hash(state.diff.encode())}" if state.diff else ""
    target = paths.code_folder() / f"{name_checkouts(str(repository))}-{state.commit[:SHORT]}{end}"
    origin = state.repository or str(repository)
    ensure_checkout(repository, state.commit, target, origin, environment, diff=state.diff.encode())
    return Code(target / state.folder, state.commit, state.repository)


def list_changes(
    then: CodeState, code: Code, environment: Mapping[str, str], apart: Sequence[Path] = ()
) -> list[str]:
    """Return the names of files that are not as they were, empty if all are.

    Of a folder without git, new files are no change, nor is what runs write. Raises ConfigError
    where it is not known what ran.
    """
    if then.left_out:
        said = f"what code has run is not known: it {then.left_out}"
        raise ConfigError(str(code.folder), said, RUN_IT_AGAIN)
    if not then.commit:
        changed = _list_other_files(then, code.folder)
        return [name for name in changed if Path(name).suffix.lower() not in WRITTEN]
    root = find_root(code.folder, environment)
    if root is None or not find_commit(root, environment, then.commit):
        raise ConfigError(str(code.folder), f"does not have commit {then.commit[:SHORT]}", FETCH)
    diff, left_out = _read_diff(root, environment, apart, then.commit)
    if left_out:
        said = f"what was changed since commit {then.commit[:SHORT]} {left_out}"
        raise ConfigError(str(code.folder), said, RUN_IT_AGAIN)
    before, now = (_split_diff(one, _list_inside(root, apart)) for one in (then.diff, diff))
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


def _split_diff(diff: str, apart: Iterable[str]) -> dict[str, str]:
    """Return the part of each file in a diff of git, without the files in `apart`."""
    parts = (part for part in re.split(r"^diff --git ", diff, flags=re.MULTILINE) if part)
    named = {part.partition("\n")[0].rpartition(" b/")[2].rstrip('"'): part for part in parts}
    others = tuple(apart)
    return {name: part for name, part in named.items() if not _is_in(name, others)}


def _read_diff(
    root: Path, environment: Mapping[str, str], apart: Sequence[Path], since: str = "HEAD"
) -> tuple[str, str]:
    """Return the diff of tracked files, and why it is left out."""
    words = ("diff", "--binary", "--no-color", "--no-ext-diff", "--no-renames", since, "--", ".")
    others = [f":(exclude,literal){name}" for name in _list_inside(root, apart)]
    content = run_git(root, environment, *words, f":(exclude,glob)**/*{LOCK_END}", *others)
    if len(content) > MOST_DIFF_BYTES:
        return "", f"was more than {MOST_DIFF_BYTES // 1024} KiB"
    try:
        diff = content.decode()
    except UnicodeDecodeError:
        return "", "was not text in UTF-8"
    if name := find_secret(diff):
        return "", f"held what looks like a secret ({name})"
    return diff, ""


def _find_repository(state: CodeState, folder: Path, environment: Mapping[str, str]) -> Path:
    """Return a repository on this machine that has the commit; raises ConfigError."""
    root = find_root(folder, environment)
    if root and find_commit(root, environment, state.commit):
        return root
    reason = f"{root or folder} does not have it"
    if state.repository:
        try:
            mirror = ensure_mirror(state.repository, state.commit, environment)
        except DeployerError as error:
            reason = error.message
        else:
            if find_commit(mirror, environment, state.commit):
                return mirror
            reason = f"{state.repository} does not have it"
    raise ConfigError(f"commit {state.commit[:SHORT]}", reason, FETCH)


def _read_files(folder: Path, apart: Sequence[Path]) -> CodeState:
    """Return the checksums of what runs may read; deployer.yaml is ours, and has been read."""
    others = (FILE_NAME, paths.RESULTS, *_list_inside(folder, apart))
    names = [name for name in list_files(folder) if not _is_in(name, others)]
    files = {name: folder / name for name in names if (folder / name).is_file()}
    if len(files) > MOST_FILES:
        return CodeState(left_out=f"was more than {MOST_FILES:,} files without git")
    if sum(path.stat().st_size for path in files.values()) > MOST_FILES_BYTES:
        return CodeState(left_out=f"was more than {MOST_FILES_BYTES >> 20} MiB without git")
    return CodeState(files={name: _hash_file(path) for name, path in files.items()})


def _check_files(state: CodeState, folder: Path) -> None:
    """Refuse files that are not as they were; others that are there by now are no matter.

    Files that a run may have written are only logged. Raises ConfigError.
    """
    if state.left_out:
        said = f"the code that ran is not known: it {state.left_out}"
        hint = "name the data in `data:` of deployer.yaml, or git init and commit; deployer up"
        raise ConfigError(str(folder), said, hint)
    other = _list_other_files(state, folder)
    if code := [name for name in other if Path(name).suffix.lower() not in WRITTEN]:
        hint = "put it back as it was; what runs write belongs in DEPLOYER_OUTPUT_DIR"
        raise ConfigError(str(folder), f"not as it ran: {_describe(folder, code)}", hint)
    if other:
        LOG.warning(f"taken for what a run has written: {_describe(folder, other)}")


def _list_other_files(state: CodeState, folder: Path) -> list[str]:
    return [
        name
        for name, checksum in state.files.items()
        if not (folder / name).is_file() or _hash_file(folder / name) != checksum
    ]


def _describe(folder: Path, names: Sequence[str]) -> str:
    parts = [f"{one} is {'another' if (folder / one).is_file() else 'gone'}" for one in names]
    more = f", and {len(parts) - MOST_SHOWN} more" if len(parts) > MOST_SHOWN else ""
    return ", ".join(parts[:MOST_SHOWN]) + more


def _list_inside(folder: Path, apart: Sequence[Path]) -> Iterator[str]:
    """Yield those of some paths that lie in a folder, relative to it."""
    root = folder.resolve()
    for path in (one.resolve() for one in apart):
        if path != root and path.is_relative_to(root):
            yield path.relative_to(root).as_posix()


def _is_in(name: str, others: Sequence[str]) -> bool:
    return any(name == other or name.startswith(f"{other}/") for other in others)


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:DIGITS]
