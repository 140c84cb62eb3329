"""The network of one real node: a namespace of its own, joined to this machine by one cable.

Routes, forwarding and kube-proxy's rules live in the namespace and go with it, so this machine's
own network is as before even after a crash. Link N is 10.88.N.0/24: this machine is .1, the node
.2, its pods .130 and up. The pods reach this machine's servers at .1 and nothing beyond it: what
is outside is refused at once, so that nothing waits for it.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

UPLINK = "uplink"
ALL_LINKS = "10.88.0.0/16"
SERVICES = "10.0.0.0/24"  # of the cluster; kube-proxy answers for them before they go anywhere


@dataclass(frozen=True)
class Link:
    """The addresses of one node's network."""

    number: int  # of this machine's links, 0 to 255

    @property
    def device(self) -> str:
        return f"dplkube{self.number}"

    @property
    def host(self) -> str:
        """Return this machine's address as pods see it."""
        return f"10.88.{self.number}.1"

    @property
    def node(self) -> str:
        return f"10.88.{self.number}.2"

    @property
    def pods(self) -> str:
        return f"10.88.{self.number}.128/25"

    @property
    def pod_gateway(self) -> str:
        return f"10.88.{self.number}.129"


def make_link(process_id: int) -> Link:
    """Join the network namespace of a process to this machine by a free link; needs root."""
    link = _take_free_link(process_id)
    _run("ip", "address", "add", f"{link.host}/30", "dev", link.device)
    _run("ip", "link", "set", link.device, "up")
    _run("ip", "route", "add", link.pods, "via", link.node)
    inside = ("nsenter", f"--net=/proc/{process_id}/ns/net")
    _run(*inside, "ip", "link", "set", "lo", "up")
    _run(*inside, "ip", "address", "add", f"{link.node}/30", "dev", UPLINK)
    _run(*inside, "ip", "link", "set", UPLINK, "up")
    for reached in (ALL_LINKS, SERVICES):
        _run(*inside, "ip", "route", "add", reached, "via", link.host)
    _run(*inside, "ip", "route", "add", "unreachable", "default")
    return link


def can_make_links() -> bool:
    """Tell whether this process may make networks, mounts and cgroups, which a real node needs."""
    return os.geteuid() == 0


def _take_free_link(process_id: int) -> Link:
    """Create the cable; the kernel refuses a name twice, so two sessions never share a number."""
    for number in range(256):
        link = Link(number)
        peer = ("peer", "name", UPLINK, "netns", str(process_id))
        command = ["ip", "link", "add", "name", link.device, "type", "veth", *peer]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return link
        if "File exists" not in done.stderr:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    raise RuntimeError("all 256 links of test nodes are in use")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
