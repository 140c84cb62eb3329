"""A report as one file that opens from a disk, with the network off; pure.

All that is chosen by users stands in it as JSON, and its scripts put it in as text. The file may
run these scripts and styles alone, by their hashes, and may ask nobody for anything.
"""

from __future__ import annotations

import base64
import hashlib

from deployer.page.assets import Assets, bundle_scripts, load_assets
from deployer.page.strict_json import to_strict_json
from deployer.report.collection import Material
from deployer.report.content import TextFile, build_document, make_address

MARK = "<!-- A report of deployer. -->"
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
<noscript>This report draws itself with JavaScript, which is switched off.</noscript>
<script type="application/json" id="documents">{documents}</script>
{scripts}
</body>
</html>
"""


def build_html(material: Material, lock: TextFile | None = None) -> str:
    """Return the whole file."""
    assets = load_assets()
    scripts, style = list_scripts(assets), assets.text("style.css")
    return SHELL.format(
        mark=MARK,
        policy=build_policy(scripts, style),
        style=style,
        documents=build_documents(material, lock),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def build_documents(material: Material, lock: TextFile | None) -> str:
    """Return all that the page's scripts read, as JSON that no `<` can break out of."""
    address = make_address(material.source.sweep.path)
    metric = material.results.metric
    held = {
        "start": address,
        "pages": {address: build_document(material, lock)},
        "curves": {metric: list(material.curves)} if metric else {},
        "importance": {metric: material.importance} if metric else {},
    }
    return to_strict_json(held).decode().replace("<", "\\u003c")


def list_scripts(assets: Assets) -> list[str]:
    """Return the scripts in the order in which they run; none holds its own end."""
    scripts = [assets.text("vendor/echarts.min.js"), bundle_scripts(assets)]
    return [script.replace(ENDS_SCRIPT, "<\\/script") for script in scripts]


def build_policy(scripts: list[str], style: str) -> str:
    """Return the policy that lets these scripts and this style in, and nothing out."""
    hashes = " ".join(map(_hash, scripts))
    return (
        f"default-src 'none'; script-src {hashes}; style-src {_hash(style)}; img-src data: blob:;"
        " base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
