"""How this deployer was installed, and the command that adds one of its extras."""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

# The command and the import are `deployer`, which on the package index is another project.
DISTRIBUTION = "sweep-deployer"


def install_command(extra: str, missing: Sequence[str] = ()) -> str:
    """Return the command that adds an extra to this installation, in the way it was made.

    Of code that was sent into a pod, the image has to have the packages that are `missing`.
    """
    try:
        found = distribution(DISTRIBUTION)
    except PackageNotFoundError:  # the code alone, on PYTHONPATH
        if missing:
            line = f"RUN pip install {' '.join(missing)}"
            return (
                f"add `{line}` to its image's Dockerfile, then deployer backend up with your --on"
            )
        return f"install deployer with its extra {extra} (docs/index.md)"
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    lines = [line.replace('"', "'").partition(";") for line in found.requires or ()]
    packages = [name.strip() for name, _, rest in lines if f"extra == '{extra}'" in rest]
    installer = [sys.executable, "-m", "pip", "install"]
    if find_spec("pip") is None:
        installer = ["uv", "pip", "install", "--python", sys.executable]
    return build_install_command(extra, origin, packages, Path(sys.prefix), installer)


def build_install_command(
    extra: str,
    origin: Mapping[str, Any],
    packages: Sequence[str],
    prefix: Path,
    installer: Sequence[str],
) -> str:
    """Return the command for the environment in `prefix`; `origin` is direct_url.json's content.

    If that is empty or names a file that was deleted, the command names the extra's packages.
    """
    path = _find_path(origin)
    if path and path / ".venv" == prefix and (prefix / ".setup").exists():
        return shlex.join(["make", "-B", "-C", str(path), "setup"])
    extras, options = [extra], ["-e"] if origin.get("dir_info", {}).get("editable") else []
    receipt = prefix / "uv-receipt.toml"
    if receipt.exists():
        # uv replaces what the tool had, so the command names all of it.
        ours, *others = tomllib.loads(receipt.read_text(encoding="utf-8"))["tool"]["requirements"]
        extras = sorted({extra, *ours.get("extras", ())})
        options += [word for other in others for word in ("--with", _name_other(other))]
    wanted = _name_ours(origin, path, extras)
    if wanted is None:
        return shlex.join([*installer, *packages])
    if receipt.exists():
        installer = ["uv", "tool", "install"]
    return shlex.join([*installer, *options, wanted])


def _find_path(origin: Mapping[str, Any]) -> Path | None:
    url = urlsplit(origin.get("url", ""))
    if url.scheme != "file" or "vcs_info" in origin:
        return None
    return Path(url2pathname(url.path))


def _name_ours(origin: Mapping[str, Any], path: Path | None, extras: Sequence[str]) -> str | None:
    """Return deployer as pip and uv read it, None if what it was installed from is gone."""
    if path:
        return f"{path}[{','.join(extras)}]" if path.exists() else None
    url, vcs = origin.get("url"), origin.get("vcs_info")
    if vcs:
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    return f"{DISTRIBUTION}[{','.join(extras)}] @ {url}" if url else None


def _name_other(requirement: Mapping[str, Any]) -> str:
    """Return a requirement of a receipt as `uv tool install --with` reads it."""
    for kind in ("directory", "editable", "path", "url", "git"):
        if kind in requirement:
            return f"{'git+' if kind == 'git' else ''}{requirement[kind]}"
    return f"{requirement['name']}{requirement.get('specifier', '')}"
