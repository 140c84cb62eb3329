"""A git repository for a test."""

from __future__ import annotations

import subprocess
from pathlib import Path

WHO = ("-c", "user.name=Tester", "-c", "user.email=tester@example.com")


def git(folder: Path, *words: str) -> str:
    """Run git in a folder and return what it printed; fails with its words."""
    done = subprocess.run(
        ["git", *WHO, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit_all(folder: Path, message: str = "Change") -> str:
    """Commit everything in a folder, a new repository if it is in none; return the commit."""
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")
