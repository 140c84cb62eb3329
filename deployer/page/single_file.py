"""Builds the page as one HTML file that works offline, with scripts and styles; pure.

All user-chosen content is embedded as JSON, and scripts insert it as text. The content security
policy allows only these scripts and styles, by their hashes, and no requests.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from deployer.page.strict_json import to_strict_json

STATIC = Path(__file__).parent / "static"
ENTRY = "pages.js"
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([a-z-]+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?:async )?(?:function|class|const|let) (\w+)", re.MULTILINE)
ENDS_SCRIPT = "</script"
SHELL = """\
<!doctype html>
{mark}
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>deployer</title>
<style>{style}</style>
</head>
<body>
<header><nav id="trail" aria-label="Where you are"></nav><p id="trouble" role="status"></p></header>
<main id="main"></main>
<noscript>This page draws itself with JavaScript, which is switched off.</noscript>
<script type="application/json" id="documents">{documents}</script>
{scripts}
</body>
</html>
"""


@dataclass(frozen=True)
class Assets:
    """Files by their path in `static/`; `version` changes with any of them."""

    files: Mapping[str, bytes]
    version: str

    def text(self, name: str) -> str:
        return self.files[name].decode()


@lru_cache(maxsize=1)
def load_assets() -> Assets:
    paths = sorted(path for path in STATIC.rglob("*") if path.is_file())
    files = {path.relative_to(STATIC).as_posix(): path.read_bytes() for path in paths}
    return Assets(files, hashlib.sha256(b"".join(files.values())).hexdigest()[:16])


def bundle_scripts(assets: Assets) -> str:
    """Return the page's modules as one script, each in its own function, in order."""
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


@dataclass(frozen=True)
class FileContent:
    """The content of the file.

    It starts with the page at `start`; `pages` maps address to document. Addresses are as on the
    server, percent-encoded. `curves` are `describe_curve`'s with a `run`, by metric; `importance`
    are documents by metric.
    """

    start: str
    pages: Mapping[str, Mapping[str, Any]]
    curves: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    importance: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def build_single_file(held: FileContent, mark: str = "") -> str:
    """Return the file; `mark` is a comment that identifies it."""
    assets = load_assets()
    scripts, style = _list_scripts(assets), assets.text("style.css")
    return SHELL.format(
        mark=mark,
        policy=_build_policy(scripts, style),
        style=style,
        documents=to_strict_json(vars(held)).decode().replace("<", "\\u003c"),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def _list_scripts(assets: Assets) -> list[str]:
    """Return the scripts in execution order, with end tags escaped."""
    scripts = [assets.text("vendor/echarts.min.js"), bundle_scripts(assets)]
    return [script.replace(ENDS_SCRIPT, "<\\/script") for script in scripts]


def _build_policy(scripts: Sequence[str], style: str) -> str:
    hashes = " ".join(map(_hash, scripts))
    return (
        f"default-src 'none'; script-src {hashes}; style-src {_hash(style)}; img-src data: blob:;"
        " base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
