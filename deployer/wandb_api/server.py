"""The W&B server in use, as higher layers see it; `launch.server` connects to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from deployer.model import SweepPath
from deployer.wandb_api.client import Client
from deployer.wandb_api.model import Viewer
from deployer.wandb_api.operations import AGENT_KEYS, REQUEUE, build_sweep_url

# What W&B's own servers do not guarantee, in one line.
NOT_GUARANTEED = (
    "not guaranteed by this server: each configuration exactly once, interrupted runs assigned "
    "again, retries, repeatable draws; `deployer results` counts lost and duplicate runs, "
    "`deployer heal` runs the missing ones"
)


@dataclass(frozen=True)
class Inside:
    """An embedded backend in the cluster that `--on` calls `on`; commands show `named`.

    Agents reach it at `url`; people at `pages_url`, as long as `deployer backend open` runs.
    `cluster` is the cluster's own id, since `on` and `url` are the same in others; `address` are
    its context and namespace. `note_user` protects it from deletion while only other users are
    asked.
    """

    on: str
    url: str
    pages_url: str
    cluster: str
    note_user: Callable[[], object] = bool
    address: Mapping[str, str] = field(default_factory=dict)
    named: str = ""

    @property
    def place(self) -> str:
        return self.named or self.on


@dataclass(frozen=True)
class Server:
    """A server that answered and knows our key; `inside` is its location in a cluster, if any.

    `pages_url` is the address of its pages, if the user sets it (WANDB_APP_URL). `revive` restarts
    a local embedded backend at the same address if its process is gone, and returns True if it was;
    it raises BackendError if the backend does not come up. In a cluster, Kubernetes does that.
    """

    client: Client
    viewer: Viewer
    embedded: bool
    inside: Inside | None = None
    pages_url: str = ""
    revive: Callable[[], bool] = bool  # nothing was gone

    @property
    def url(self) -> str:
        return self.inside.url if self.inside else self.client.base_url

    @property
    def name(self) -> str:
        return "embedded" if self.embedded else self.url

    @property
    def extended(self) -> bool:
        """Return True if this server has the embedded backend's extensions to W&B."""
        return AGENT_KEYS in self.client.mutations

    @property
    def can_requeue(self) -> bool:
        return REQUEUE in self.client.mutations

    def note_user(self) -> None:
        """Record the caller as a user of a shared backend, before any write to it."""
        if self.inside:
            self.inside.note_user()

    def sweep_url(self, path: SweepPath) -> str:
        if self.inside:
            return build_sweep_url(self.inside.pages_url, path)
        return build_sweep_url(self.url, path, self.pages_url)

    @property
    def page_hint(self) -> str:
        """Return how to open a page that requires a login, to print after its address."""
        if self.inside:
            return f" (deployer backend open --on {self.inside.place} opens it)"
        return " (deployer backend open signs you in)" if self.embedded else ""

    def page_lines(self, path: SweepPath) -> list[str]:
        """Return the URL of a sweep's page; for a local backend a one-time sign-in link."""
        page = f"results page: {self.sweep_url(path)}"
        if self.inside:
            return [f"{page}{self.page_hint}"]
        place = "/".join(("", *path[:2], "sweeps", path.sweep_id))
        link = make_link(self.client, self.url, place) if self.embedded else None
        return [f"results page: {link} (signs you in, once)"] if link else [page]

    def describe(self) -> str:
        kind = "embedded W&B backend" if self.embedded else "W&B server"
        return f"{kind} {self.url} as {self.viewer.name or self.viewer.entity}"


def make_link(client: Client, pages_url: str, place: str = "/") -> str | None:
    """Return a one-time sign-in link to a page of an embedded backend, for the key's owner.

    The code follows the `#`, which browsers send to no server. None if the server has none.
    """
    code = client.ask_login_code()
    return f"{pages_url}/login?next={quote(place)}#link={code}" if code else None
