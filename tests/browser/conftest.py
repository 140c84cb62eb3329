"""A real browser, and people in it; whatever a page logs or asks of another host fails its test."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import requests  # noqa: TID251 - a test is a client of its own

from tests.backend.client import Client
from tests.browser.sweeps import WIDE
from tests.conftest import ServedBackend

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

OpenPage = Callable[..., "Page"]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Start one browser for all tests."""
    program = shutil.which("chromium")
    assert program, "there is no chromium: sudo make test-browser installs it"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def client(backend: ServedBackend, request: pytest.FixtureRequest) -> Client:
    """A client in a project of the test's own."""
    return Client.of(backend, re.sub(r"\W+", "-", request.node.name))


def make_link(client: Client, place: str = "/") -> str:
    """Return an address that signs in once, as `deployer backend open` prints it."""
    reply = requests.post(f"{client.url}/login/link", auth=("api", client.key), timeout=30)
    return f"{client.url}/login?next={place}#link={reply.json()['code']}"


class Watch:
    """Notes what no page may do: log, fail, show a dialog, ask another host.

    What is `expected` may be logged, since the browser itself logs each answer that is a refusal.
    """

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        self.troubles: list[str] = []
        self.expected = ""

    def follow(self, page: Page) -> None:
        """Note it from now on."""
        page.on("console", lambda said: self._note_console(said.text))
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.troubles.append(f"dialog: {dialog.message}"))
        page.on("request", lambda asked: self._note_host(asked.url))

    def _note_console(self, text: str) -> None:
        if not self.expected or self.expected not in text:
            self.troubles.append(f"console: {text}")

    def _note_host(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob", "file") and parts.netloc != self._host:
            self.troubles.append(f"another host was asked: {url}")


@pytest.fixture
def watch(client: Client) -> Watch:
    """What the pages of a test did and must not."""
    return Watch(client.url)


@pytest.fixture
def open_page(client: Client, chromium: Browser, watch: Watch) -> Iterator[OpenPage]:
    """Open a page of the client's project as its signed-in owner, in a window of its own."""
    contexts = []

    def open_(place: str = "", *, width: int = WIDE, theme: Any = "light") -> Page:
        size: Any = {"width": width, "height": 900}
        context = chromium.new_context(color_scheme=theme, viewport=size, reduced_motion="reduce")
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        watch.follow(page)
        page.goto(make_link(client, f"/{client.entity}/{client.project}{place}"))
        page.wait_for_selector("main h1")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert watch.troubles == []
