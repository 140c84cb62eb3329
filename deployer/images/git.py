"""git on this machine: revisions, and checkouts of commits in the state folder.

Credentials are git's own, and nobody is asked for any. Runs nothing but `git`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from deployer.errors import ConfigError, DeployerError

# A repository that a hook or a shell has chosen is not the one that is meant.
NOT_INHERITED = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
CREDENTIALS = re.compile(r"(?<=//)[^/@\s]+@")
WHOLE_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
REFS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*", "+HEAD:refs/deployer/head")


def run_git(folder: Path, environment: Mapping[str, str], *words: str) -> bytes:
    """Run git in a folder and return what it printed; raises DeployerError in git's own words."""
    done = try_git(folder, environment, *words)
    if done.returncode:
        lines = CREDENTIALS.sub("", done.stderr.decode(errors="replace")).strip().splitlines()
        said = next((one for one in lines if one.startswith(("fatal:", "error:"))), "")
        said = said or (lines[-1] if lines else f"exit code {done.returncode}")
        command = CREDENTIALS.sub("", f"git {words[0]}")
        raise DeployerError(f"{command} in {folder}: {said}", f"cd {folder} && git status")
    return done.stdout


def try_git(
    folder: Path, environment: Mapping[str, str], *words: str
) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder, whatever comes of it; raises ConfigError where there is no git."""
    kept = {name: value for name, value in environment.items() if name not in NOT_INHERITED}
    try:
        return subprocess.run(
            ["git", *words],
            cwd=folder,
            env={**kept, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise ConfigError("git", "is not on PATH", "install it: apt-get install git") from error


def find_root(folder: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the top folder of the repository in which a folder is; None outside of one."""
    done = try_git(folder, environment, "rev-parse", "--show-toplevel")
    return Path(os.fsdecode(done.stdout.rstrip(b"\n"))) if done.returncode == 0 else None


def find_commit(folder: Path, environment: Mapping[str, str], revision: str) -> str | None:
    """Return the commit of a revision that is in a repository; None if it is not."""
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    done = try_git(folder, environment, *words)
    return done.stdout.decode().strip() if done.returncode == 0 else None


def get_remote(folder: Path, environment: Mapping[str, str]) -> str:
    """Return the address of `origin` without credentials; empty if there is none."""
    done = try_git(folder, environment, "config", "--get", "remote.origin.url")
    return CREDENTIALS.sub("", done.stdout.decode(errors="replace").strip())


def fetch_mirror(url: str, mirror: Path, environment: Mapping[str, str]) -> None:
    """Bring a copy of a repository up to date; raises DeployerError if it cannot be reached."""
    mirror.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (mirror / "HEAD").exists():
        run_git(mirror, environment, "init", "--quiet", "--bare")
    done = try_git(mirror, environment, "fetch", "--quiet", "--prune", "--", url, *REFS)
    if done.returncode:
        lines = CREDENTIALS.sub("", done.stderr.decode(errors="replace")).strip().splitlines()
        said = lines[-1] if lines else f"exit code {done.returncode}"
        raise DeployerError(f"{url}: git cannot fetch it: {said}", f"git ls-remote {url}")


def ensure_checkout(
    repository: Path, commit: str, target: Path, origin: str, environment: Mapping[str, str]
) -> None:
    """Make a checkout of a commit that is in a repository here, or mend the one that is there.

    It is there as a whole or not at all, also while two commands make it.
    """
    if target.is_dir() and find_root(target, environment) == target.resolve():
        clean = try_git(target, environment, "diff", "--quiet", commit, "--")
        if clean.returncode:  # a run has written to a file of the commit
            run_git(target, environment, "checkout", "--quiet", "--force", "--detach", commit)
        return
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = Path(tempfile.mkdtemp(prefix=".", dir=target.parent))
    try:
        words = ("clone", "--quiet", "--local", "--no-checkout", "--", str(repository), str(draft))
        run_git(target.parent, environment, *words)
        run_git(draft, environment, "remote", "set-url", "origin", origin)
        run_git(draft, environment, "checkout", "--quiet", "--detach", commit)
        if not target.is_dir():
            draft.rename(target)
    except OSError as error:
        if not target.is_dir():  # else another command was faster
            raise DeployerError(f"{target}: {error.strerror}", "export DEPLOYER_HOME=…") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
