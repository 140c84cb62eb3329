"""The page as one HTML file: documents, scripts and styles inside, no server and no other host."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deployer.page.assets import bundle_scripts, load_assets
from deployer.page.strict_json import to_strict_json

# Scripts and styles stand in the file itself; nothing is fetched.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)


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


def build_single_file(held: Held, title: str) -> str:
    """Return the file. What users chose stands in it as JSON, in which no tag can end."""
    assets = load_assets()
    documents = to_strict_json(vars(held)).decode().replace("<", "\\u003c")
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{html.escape(title)}</title>",
        f"<style>{assets.text('style.css')}</style>",
    ]
    body = [
        '<header><nav id="trail" aria-label="Where you are"></nav>',
        '<p id="trouble" role="status"></p></header>',
        '<main id="main"></main>',
        f'<script type="application/json" id="documents">{documents}</script>',
        f"<script>{assets.text('vendor/echarts.min.js')}</script>",
        f"<script>{bundle_scripts(assets)}</script>",
    ]
    lines = ["<!doctype html>", '<html lang="en">', "<head>", *head, "</head>"]
    return "\n".join([*lines, "<body>", *body, "</body>", "</html>", ""])
