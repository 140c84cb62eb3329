"""What a run logged beside numbers, as it stands in its history: images, tables, pages; pure."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
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
HISTOGRAM = "histogram"
MOST_FRAMES = 60  # of one name, evenly spread over the steps
MOST_FILES = 600  # in these frames
MOST_BINS = 512  # as the SDK has them at most


def list_media(
    history: Iterable[Mapping[str, Any]], files: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return what was logged by name and kind, as frames over the steps, histograms last.

    A frame has its step and the files that are there, with captions; a histogram's has the edges
    of its bins and their counts.
    """
    present = {str(file["name"]) for file in files}
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in history:
        for name, value in row.items():
            if isinstance(value, Mapping):
                kind, content = _read(value, present)
                if content:
                    frame = {"step": row.get("_step"), **content}
                    found.setdefault((name, kind), []).append(frame)
    media = [
        {"name": name, "kind": kind, "frames": _spread(frames)}
        for (name, kind), frames in found.items()
    ]
    return sorted(media, key=lambda one: one["kind"] == HISTOGRAM)[:MOST_ITEMS]


def _read(value: Mapping[str, Any], present: Container[str]) -> tuple[str, dict[str, Any]]:
    """Return the kind and the content of one value; no content if it is nothing to be shown."""
    told = str(value.get("_type"))
    if told == HISTOGRAM:
        return HISTOGRAM, _read_bins(value)
    there = [file for file in _files(value) if file["path"] in present] if told in KINDS else []
    return KINDS.get(told, ""), {"files": there} if there else {}


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


def _read_bins(value: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return edges and counts, if they are some; the SDK packs edges that are even."""
    counts, edges = _numbers(value.get("values")), _numbers(value.get("bins"))
    packed = value.get("packedBins")
    if isinstance(packed, Mapping) and (found := _numbers([packed.get("min"), packed.get("size")])):
        edges = [found[0] + at * found[1] for at in range(len(counts) + 1)]
    if not counts or len(counts) > MOST_BINS or len(edges) != len(counts) + 1:
        return {}
    return {"edges": edges, "counts": counts}


def _numbers(values: Any) -> list[float]:
    """Return a list of finite numbers; an empty one for anything else."""
    usable = isinstance(values, list) and all(
        type(one) in (int, float) and math.isfinite(one) for one in values
    )
    return values if usable else []


def _spread(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    largest = max(len(frame.get("files", ())) for frame in frames)
    most = min(MOST_FRAMES, max(2, MOST_FILES // max(1, largest)))
    if len(frames) <= most:
        return frames
    stride = (len(frames) - 1) / (most - 1)
    return [frames[round(index * stride)] for index in range(most)]
