"""What a run logged beside numbers, as it stands in its history: images, tables, pages; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

MOST_ITEMS = 60
KINDS = {
    "image-file": "image",
    "images/separated": "image",
    "table-file": "table",
    "html-file": "html",
    "html": "html",
}
MOST_FRAMES = 60  # histograms of one name, evenly spread over the steps
MOST_BINS = 512  # as the SDK has them at most


def list_media(
    history: Iterable[Mapping[str, Any]], files: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the newest media by name: kind, step, and the files that are there, with captions.

    A histogram has `frames` in place of files: step, edges of bins and counts, over the steps.
    """
    present = {str(file["name"]) for file in files}
    newest: dict[str, dict[str, Any]] = {}
    frames: dict[str, list[dict[str, Any]]] = {}
    for row in history:
        for name, value in row.items():
            if not isinstance(value, Mapping):
                continue
            step = row.get("_step")
            if value.get("_type") == "histogram" and (bins := _read_bins(value)):
                frames.setdefault(name, []).append({"step": step, **bins})
            kind = KINDS.get(str(value.get("_type")))
            there = [file for file in _files(value) if file["path"] in present]
            if kind and there:
                newest[name] = {"name": name, "kind": kind, "step": step, "files": there}
    histograms = [
        {"name": name, "kind": "histogram", "step": found[-1]["step"], "frames": _spread(found)}
        for name, found in frames.items()
    ]
    return [*newest.values(), *histograms][:MOST_ITEMS]


def _files(value: Mapping[str, Any]) -> list[dict[str, str]]:
    many = value.get("captions")
    captions = many if isinstance(many, list) else [value.get("caption")]
    pairs = zip_longest(_paths(value), captions)
    return [
        {"path": path, "caption": caption if isinstance(caption, str) else ""}
        for path, caption in pairs
        if path is not None
    ]


def _paths(value: Mapping[str, Any]) -> list[str]:
    many, pages = value.get("filenames"), value.get("html")
    if isinstance(pages, list):
        return [
            path for page in pages[:MOST_ITEMS] if isinstance(page, dict) for path in _paths(page)
        ]
    if isinstance(many, list):
        return [str(path) for path in many[:MOST_ITEMS]]
    return [str(value["path"])] if value.get("path") else []


def _read_bins(value: Mapping[str, Any]) -> dict[str, list[float]] | None:
    """Return edges and counts of a histogram, whose edges the SDK packs if they are even."""
    counts, edges = _numbers(value.get("values")), _numbers(value.get("bins"))
    packed = value.get("packedBins")
    if isinstance(packed, Mapping) and (found := _numbers([packed.get("min"), packed.get("size")])):
        edges = [found[0] + at * found[1] for at in range(len(counts) + 1)]
    if not counts or len(counts) > MOST_BINS or len(edges) != len(counts) + 1:
        return None
    return {"edges": edges, "counts": counts}


def _numbers(values: Any) -> list[float]:
    """Return a list of finite numbers; an empty one for anything else."""
    usable = isinstance(values, list) and all(
        type(one) in (int, float) and math.isfinite(one) for one in values
    )
    return values if usable else []


def _spread(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(frames) <= MOST_FRAMES:
        return frames
    stride = (len(frames) - 1) / (MOST_FRAMES - 1)
    return [frames[round(index * stride)] for index in range(MOST_FRAMES)]
