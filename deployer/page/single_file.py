"""The page as one HTML file that opens from a disk, with the network off; pure.

All that is chosen by users stands in it as JSON, and its scripts put it in as text. The file may
run these scripts and styles alone, by their hashes, and may ask nobody for anything.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deployer.page.assets import Assets, bundle_scripts, load_assets
from deployer.page.strict_json import to_strict_json

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
class Held:
    """What the file holds: `start` is the address of the first page, `pages` documents by address.

    Addresses are as on the server, percent-encoded. `curves` are `describe_curve`'s with a `run`,
    by metric; `importance` are documents by metric.
    """

    start: str
    pages: Mapping[str, Mapping[str, Any]]
    curves: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    importance: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def build_single_file(held: Held, mark: str = "") -> str:
    """Return the file; `mark` is a comment by which it is known again."""
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
    """Return the scripts in the order in which they run; none holds its own end."""
    scripts = [assets.text("vendor/echarts.min.js"), bundle_scripts(assets)]
    return [script.replace(ENDS_SCRIPT, "<\\/script") for script in scripts]


def _build_policy(scripts: Sequence[str], style: str) -> str:
    """Return the policy that lets these scripts and this style in, and nothing out."""
    hashes = " ".join(map(_hash, scripts))
    return (
        f"default-src 'none'; script-src {hashes}; style-src {_hash(style)}; img-src data: blob:;"
        " base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
