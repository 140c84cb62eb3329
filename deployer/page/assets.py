"""The page's static files, and its scripts as one for a page that is a single file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

STATIC = Path(__file__).parent / "static"
ENTRY = "pages.js"
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([a-z-]+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?:async )?(?:function|class|const|let) (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Assets:
    """Files by their path below `static/`; `version` changes with any of them."""

    files: Mapping[str, bytes]
    version: str

    def text(self, name: str) -> str:
        """Return a file that is text."""
        return self.files[name].decode()


@lru_cache(maxsize=1)
def load_assets() -> Assets:
    """Read every static file."""
    paths = sorted(path for path in STATIC.rglob("*") if path.is_file())
    files = {path.relative_to(STATIC).as_posix(): path.read_bytes() for path in paths}
    return Assets(files, hashlib.sha256(b"".join(files.values())).hexdigest()[:16])


def bundle_scripts(assets: Assets) -> str:
    """Return the page's modules as one script, each in a function of its own, in their order."""
    done: dict[str, str] = {}
    _bundle(assets, ENTRY, done)
    return "\n".join(done.values())


def _bundle(assets: Assets, name: str, done: dict[str, str]) -> None:
    source = assets.text(name)
    for imported in IMPORT.finditer(source):
        if imported[2] not in done:
            _bundle(assets, imported[2], done)
    body = IMPORT.sub(lambda found: f"const {{{found[1]}}} = {_variable(found[2])};\n", source)
    names = ", ".join(EXPORT.findall(source))
    body = re.sub(r"^export ", "", body, flags=re.MULTILINE)
    done[name] = f"const {_variable(name)} = (() => {{\n{body}\nreturn {{ {names} }};\n}})();"


def _variable(name: str) -> str:
    return "module_" + name.removesuffix(".js").replace("-", "_")
