"""TLS by a reverse proxy: the example for nginx, with Debian's nginx in front of a backend."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import requests  # noqa: TID251 - a test is a client of its own

from tests.backend.client import Client
from tests.backend.pages_browser import log_in
from tests.cluster.control_plane.packages import find_packages, library_path
from tests.conftest import ServedBackend, serve_backend

PACKAGES = ("nginx", "libpcre2-8-0", "libssl3", "zlib1g")
EXAMPLE = Path(__file__).parents[3] / "infra/proxy/nginx.conf"
AROUND = """
daemon off; pid nginx.pid; error_log stderr; user root;
events {}
http {
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    include site.conf;
}
"""
RUN = """
import pathlib, wandb
run = wandb.init(project="secure", id="r")
run.log({"loss": 0.5})
pathlib.Path("kept.txt").write_text("through TLS")
run.save("kept.txt", policy="end")
run.finish()
"""
FILES = (
    'query F($project: String!) { project(name: $project) { run(name: "r") { historyLineCount'
    ' files(names: ["kept.txt"]) { edges { node { url directUrl upload: url(upload: true)'
    " } } } } } }"
)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture
def proxied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedBackend]:
    """A backend behind nginx; its address is the proxy's."""
    port = free_port()
    url = f"https://localhost:{port}"
    with monkeypatch.context() as patch:
        patch.setenv("DEPLOYER_BACKEND_PUBLIC_URL", url)
        served = serve_backend(tmp_path / "data")
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key.pem -out cert.pem"
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*make.split(), *name], cwd=tmp_path, check=True, capture_output=True)
    site = EXAMPLE.read_text()
    for old, new in {
        "listen 443": f"listen 127.0.0.1:{port}",
        "server_name sweeps.example.org": "server_name localhost",
        "/etc/ssl/certs/sweeps.example.org.pem": f"{tmp_path}/cert.pem",
        "/etc/ssl/private/sweeps.example.org.key": f"{tmp_path}/key.pem",
        "http://127.0.0.1:8080": served.url,
    }.items():
        assert old in site
        site = site.replace(old, new)
    (tmp_path / "site.conf").write_text(site)
    (tmp_path / "nginx.conf").write_text(AROUND)
    debian = find_packages("proxy", PACKAGES)
    command = [f"{debian}/usr/sbin/nginx", "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr"]
    nginx = subprocess.Popen(command, env={**os.environ, **library_path(debian)})
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", f"{tmp_path}/cert.pem")
    deadline = time.monotonic() + 30
    while socket.socket().connect_ex(("127.0.0.1", port)):
        assert nginx.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield replace(served, url=url)
    nginx.terminate()
    nginx.wait(20)
    served.end()


def test_a_run_a_file_and_a_session_through_tls(proxied: ServedBackend, tmp_path: Path) -> None:
    trust = {"SSL_CERT_FILE": f"{tmp_path}/cert.pem", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=tmp_path,
        env={**proxied.environment, **trust, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    run = Client.of(proxied, "secure").ask(FILES)["project"]["run"]
    assert run["historyLineCount"] == 1
    ((file,),) = ([edge["node"] for edge in run["files"]["edges"]],)
    assert [address.startswith(f"{proxied.url}/") for address in file.values()] == [True] * 3
    assert requests.get(file["directUrl"], timeout=30).text == "through TLS"
    browser = requests.Session()
    entered = log_in(browser, proxied.url, proxied.key)
    assert "Secure" in entered.headers["set-cookie"]
    assert browser.get(f"{proxied.url}/api/pages/{proxied.entity}/secure", timeout=30).ok
