"""Gives a run a working folder of its own where `isolate:` is set: a copy of the project.

It is made before the run's command starts. What git does not track is copied, too, as far as it is
small, else linked. When the run has finished, the copies go, and what it wrote lies with its
outputs.
"""

import fcntl
import math
import os
import shutil
import subprocess
import sys
import time
from typing import Callable, Iterator, List, Mapping, Optional, Tuple

OUTPUTS = "DEPLOYER_OUTPUT_ROOT"
FOLDER_END = ".folder"  # of its name, which is else that of the run's outputs
GATHERED = "working-folder"  # below the run's outputs
MOST_BYTES, MOST_FILES = 64 << 20, 1000  # in all, of what git does not track, to be copied
CLONE = 0x40049409  # FICLONE of linux/fs.h: a copy that shares its blocks until one is changed
CLOCK_SECONDS = 0.02  # a tick of the clock by which a file system notes changes
LOCK_SECONDS = 60.0  # as sitecustomize.py has it
GIT_SECONDS = 60.0
NOT_READY = 75  # EX_TEMPFAIL


def main(command: List[str]) -> None:
    """Enter the run's folder and become its command; never returns."""
    project = os.getcwd()
    try:
        folder = make_folder(project, os.environ)
        os.chdir(folder)
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"deployer: the run's own folder is not ready: {error}\n")
        os._exit(NOT_READY)
    command = [settle(word, project, folder) for word in command]
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def settle(word: str, project: str, folder: str) -> str:
    """Return a word of the command as it counts in the run's folder: a script may be outside."""
    path = os.path.normpath(os.path.join(project, word))
    if not word.endswith(".py") or not os.path.exists(path):
        return word
    if not path.startswith(project + os.sep):
        return path
    return folder + path[len(project) :] if os.path.isabs(word) else word


def find_own(environment: Mapping[str, str], root: str) -> str:
    """Return a run's place in the folder of all runs' outputs, or of their checkpoints."""
    own = (environment["WANDB_SWEEP_ID"], environment["WANDB_RUN_ID"])
    return os.path.join(environment[root], *own)


def make_folder(project: str, environment: Mapping[str, str]) -> str:
    """Return the run's folder: as it was left if the run resumes, else afresh."""
    checkpoints = find_own(environment, "DEPLOYER_CHECKPOINT_ROOT")
    folder = find_own(environment, OUTPUTS) + FOLDER_END
    for path in (checkpoints, os.path.dirname(folder)):
        os.makedirs(path, exist_ok=True)
    lock = os.open(f"{checkpoints}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        await_lock(lock)
        if not (os.listdir(checkpoints) and os.path.isdir(folder)):
            # In a pod, all that an archive brought.
            copy_project(project, folder, project == environment.get("DEPLOYER_CODE_FOLDER"))
    finally:
        os.close(lock)
    return folder


def await_lock(lock: int) -> None:
    """Wait until no earlier attempt works in the folder any more; raises OSError if one stays."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def copy_project(project: str, folder: str, whole: bool) -> None:
    """Copy a project into a folder, which appears once it is whole."""
    new = f"{folder}.new"
    for path in (folder, new):
        if os.path.isdir(path):
            shutil.rmtree(path)
    copied, linked = look_at(project, folder, whole)
    os.makedirs(new)
    for name in copied:
        copy(project, name, os.path.join(new, name))
    for name in linked:
        link(os.path.join(project, name), os.path.join(new, name))
    os.rename(new, folder)
    with open(f"{folder}.made", "w", encoding="utf-8"):  # what changes later is the run's
        pass
    os.utime(f"{folder}.made")
    time.sleep(CLOCK_SECONDS)


def look_at(project: str, folder: str = "", whole: bool = False) -> Tuple[List[str], List[str]]:
    """Return what of a project is copied, if need be the `whole`, and what is linked.

    That is the larger part of what git does not track, and whatever holds `folder`.
    """
    tracked = ask_git(project, "--cached", "--recurse-submodules")
    others = ask_git(project, "--others", "--directory") if tracked else os.listdir(project)
    copied, linked = [one for one in tracked or () if is_file(os.path.join(project, one))], []
    found = []
    room, places = (math.inf, math.inf) if whole else (MOST_BYTES, MOST_FILES)
    for name in {*(others or ()), *([".git"] if tracked else ())}:
        path = os.path.join(project, name.rstrip("/"))
        never = name == ".git" or f"{folder}/".startswith(f"{path}/")
        files = None if never else list_small(path, room, places)
        if files is not None:
            found.append((sum(map(measure, files)), files))
        elif os.path.lexists(path):
            linked.append(name.rstrip("/"))
    for size, files in sorted(found):
        room, places = room - size, places - len(files)
        names = [os.path.relpath(one, project) for one in files]
        if room >= 0 and places >= 0:
            copied += names
        else:
            linked += names[:1]
    return copied, sorted(linked)


def ask_git(folder: str, *flags: str) -> Optional[List[str]]:
    """Return what `git ls-files` lists; None without git or outside a repository."""
    command = ["git", "ls-files", "-z", *flags]
    try:
        answer = subprocess.run(
            command, cwd=folder, capture_output=True, timeout=GIT_SECONDS, check=False
        )
    except FileNotFoundError:
        return None
    names = [os.fsdecode(name) for name in answer.stdout.split(b"\0") if name]
    return None if answer.returncode else names


def is_file(path: str) -> bool:
    """Tell a file or a link, whatever it leads to."""
    return os.path.islink(path) or os.path.isfile(path)


def measure(path: str) -> int:
    """Return the size of a file; a folder itself has none."""
    return os.lstat(path).st_size if is_file(path) else 0


def list_small(path: str, room: float, places: float) -> Optional[List[str]]:
    """Return a file, or a folder with all that is in it; None if that is much."""
    found, size = [], 0
    for one in walk(path):
        found.append(one)
        size += measure(one)
        if size > room or len(found) > places:
            return None
    return found


def walk(path: str) -> Iterator[str]:
    """Yield a path and what is below it, links as such; neither devices nor the like."""
    if is_file(path) or os.path.isdir(path):
        yield path
    if os.path.isdir(path) and not os.path.islink(path) and os.access(path, os.R_OK | os.X_OK):
        for name in os.listdir(path):
            yield from walk(os.path.join(path, name))


def copy(project: str, name: str, target: str) -> None:
    """Copy a file, make a folder, or a link that leads where it led; link what may not be read."""
    source = os.path.join(project, name)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(source):
        inside = os.path.realpath(source).startswith(os.path.realpath(project) + os.sep)
        os.symlink(os.readlink(source) if inside else os.path.realpath(source), target)
    elif os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif os.access(source, os.R_OK):
        with open(source, "rb") as old, open(target, "wb") as new:
            try:
                fcntl.ioctl(new.fileno(), CLONE, old.fileno())
            except OSError:  # another file system, or one that cannot
                shutil.copyfileobj(old, new, 1 << 20)
        shutil.copystat(source, target)
    else:
        link(source, target)


def link(source: str, target: str) -> None:
    """Make a link, in the place of an older one."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.lexists(target):
        os.unlink(target)
    os.symlink(source, target)


def gather(environment: Mapping[str, str], place: Callable[[str, str], object] = link) -> None:
    """Have what the run made or changed in its folder lie with its outputs, as links if need be."""
    outputs = find_own(environment, OUTPUTS)
    folder = outputs + FOLDER_END
    made_at = os.stat(f"{folder}.made").st_ctime_ns
    # What the SDK still writes to is not sent away.
    left_out = {"__pycache__", *(["wandb"] if place is link else [])}
    for path in [one for one in walk(folder) if is_file(one)]:
        name = os.path.relpath(path, folder)
        if os.lstat(path).st_ctime_ns > made_at and not left_out & {*name.split(os.sep)}:
            target = os.path.join(outputs, GATHERED, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            place(path, target)


def end_folder(environment: Mapping[str, str]) -> None:
    """Keep what a finished run wrote with its outputs, and remove its folder."""
    gather(environment, os.replace)
    folder = find_own(environment, OUTPUTS) + FOLDER_END
    shutil.rmtree(folder)
    os.unlink(f"{folder}.made")
