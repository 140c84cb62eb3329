"""What a run logged beside numbers: which of it a page shows, and how its files are sent."""

from __future__ import annotations

from typing import Any

import requests  # noqa: TID251 - a test is a client of its own

from deployer.page.run_document import MOST_FILES, MOST_FRAMES, list_media
from tests.backend.client import Client
from tests.backend.pages_browser import read

HTML = {"_type": "html-file", "path": "media/html/p.html"}


def histogram(**more: Any) -> dict[str, Any]:
    return {"_type": "histogram", "values": [1, 2], "bins": [0.0, 0.5, 1.0], **more}


def test_a_histogram_is_kept_over_the_steps() -> None:
    packed = {"bins": None, "packedBins": {"min": 2.0, "size": 0.5, "count": 2}}
    rows = [{"_step": 1, "w": histogram()}, {"_step": 5, "w": histogram(**packed)}]
    assert list_media(rows, []) == [
        {
            "name": "w",
            "kind": "histogram",
            "frames": [
                {"step": 1, "edges": [0.0, 0.5, 1.0], "counts": [1, 2]},
                {"step": 5, "edges": [2.0, 2.5, 3.0], "counts": [1, 2]},
            ],
        }
    ]
    [many] = list_media([{"_step": n, "w": histogram()} for n in range(1000)], [])
    steps = [frame["step"] for frame in many["frames"]]
    assert (len(steps), steps[0], steps[-1]) == (MOST_FRAMES, 0, 999)


def test_what_is_no_histogram_is_left_out() -> None:
    nothing = ({"bins": None}, {"values": ["x", 2]}, {"bins": [0.0, 1.0]}, {"values": [1, True]})
    assert list_media([{"w": histogram(**broken)} for broken in nothing], []) == []


def test_pages_of_a_run_are_listed_if_their_files_are_there() -> None:
    both = {"_type": "html", "html": [HTML, {**HTML, "path": "media/html/gone.html"}]}
    rows = [{"_step": 2, "one": HTML, "many": both}]
    found = list_media(rows, [{"name": HTML["path"]}])
    assert found == [
        {
            "name": name,
            "kind": "html",
            "frames": [{"step": 2, "files": [{"path": HTML["path"], "caption": ""}]}],
        }
        for name in ("one", "many")
    ]


def test_images_have_their_captions() -> None:
    one = {"_type": "image-file", "path": "a.png", "caption": "a cat"}
    names = ["b.png", "gone.png", "c.png"]
    many = {"_type": "images/separated", "filenames": names, "captions": ["b", "gone"]}
    rows = [{"_step": 1, "one": one, "many": many}]
    found = list_media(rows, [{"name": name} for name in ("a.png", "b.png", "c.png")])
    frames = [frame for item in found for frame in item["frames"]]
    captions = [[(file["path"], file["caption"]) for file in frame["files"]] for frame in frames]
    assert captions == [[("a.png", "a cat")], [("b.png", "b"), ("c.png", "")]]


def test_the_files_of_a_name_are_kept_over_the_steps() -> None:
    paths = [f"{step}.{number}.png" for step in range(100) for number in range(30)]
    rows = [
        {"_step": step, "many": {"_type": "images/separated", "filenames": paths[30 * step :][:30]}}
        for step in range(100)
    ]
    [found] = list_media(rows, [{"name": path} for path in paths])
    steps = [frame["step"] for frame in found["frames"]]
    assert (len(steps), steps[0], steps[-1]) == (MOST_FILES // 30, 0, 99)
    assert {len(frame["files"]) for frame in found["frames"]} == {30}


def test_a_page_in_a_frame_runs_nothing_and_is_a_stranger(
    client: Client, browser: requests.Session
) -> None:
    client.init_run("r")
    client.log("r", [{"_step": 0, "p": HTML}])
    client.upload("r", HTML["path"], b"<h1>Hello</h1>")
    [shown] = read(browser, client, "/runs/r")["media"]
    [frame] = shown["frames"]
    address = f"{client.url}/api/pages/{client.entity}/{client.project}/runs/r/files/"
    address += frame["files"][0]["path"]
    framed = browser.get(address, params={"as": "html"}, timeout=30)
    assert framed.content == b"<h1>Hello</h1>"
    assert framed.headers["content-type"].startswith("text/html")
    policy = framed.headers["content-security-policy"].split("; ")
    assert {"sandbox", "default-src 'none'", "frame-ancestors 'self'"} <= set(policy)
    saved = browser.get(address, timeout=30)
    assert saved.headers["content-disposition"].startswith("attachment")
    assert saved.headers["content-type"] == "application/octet-stream"
