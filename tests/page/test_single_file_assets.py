"""The page's static files: what modules import, what is shipped, and the page as one script."""

from __future__ import annotations

import hashlib
import re

from deployer.page.single_file import (
    ENTRY,
    EXPORT,
    IMPORT,
    STATIC,
    FileContent,
    build_single_file,
    bundle_scripts,
    load_assets,
)

MODULES = {path.name: path.read_text() for path in STATIC.glob("*.js")}
OWN_PAGE = {"login.js"}


def test_modules_import_what_others_export() -> None:
    for name, source in MODULES.items():
        for names, other in IMPORT.findall(source):
            wanted = {one.strip() for one in names.split(",") if one.strip()}
            assert wanted <= set(EXPORT.findall(MODULES[other])), (name, other)
        assert len(re.findall(r"^import ", source, re.MULTILINE)) == len(IMPORT.findall(source))


def test_one_script_holds_every_module_once_behind_those_that_it_needs() -> None:
    script = bundle_scripts(load_assets())
    order = re.findall(r"^const module_(\w+) = \(\(\) => \{$", script, re.MULTILINE)
    expected = {name.removesuffix(".js").replace("-", "_") for name in MODULES.keys() - OWN_PAGE}
    assert (len(order), set(order)) == (len(expected), expected)
    assert order[-1] == ENTRY.removesuffix(".js")
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)


def test_what_is_shipped_is_what_its_authors_built() -> None:
    said = (STATIC / "vendor" / "README.md").read_text()
    for path in (STATIC / "vendor").glob("*.js"):
        assert f"`{path.name}`" in said
        assert hashlib.sha256(path.read_bytes()).hexdigest() in said


def test_nothing_is_fetched_from_elsewhere() -> None:
    for name, source in {**MODULES, "style.css": (STATIC / "style.css").read_text()}.items():
        assert not re.search(r"https?://(?!www\.w3\.org/)", source), name
        assert "innerHTML" not in source, name


def test_no_tag_ends_within_the_documents_of_one_file() -> None:
    nasty = "</script><script>alert(1)</script><!--"
    text = build_single_file(FileContent("/e/p/runs/r", {"/e/p/runs/r": {"title": nasty}}))
    assert "alert(1)</script>" not in text
    assert text.count("</script>") == 3
