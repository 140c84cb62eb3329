"""Certificates, gateways and proxies: one way for commands, supervisors and runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from deployer.agent.network import HEADERS_VARIABLE, build_reach, find_proxy
from deployer.agent.server import HOPELESS, VIEWER, ServerAddress, ask
from deployer.agent.settings import TOKEN_FILE_VARIABLE
from deployer.errors import ConfigError, WandbError
from deployer.wandb_api.client import Client
from deployer.wandb_api.operations import get_viewer
from tests.cli.conftest import Project
from tests.outside.cloud import IDENTITY_TOKEN, Network, serve_network

HOST = "wandb.corp.example"
URL = f"https://{HOST}"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with serve_network(tmp_path_factory.mktemp("network"), (HOST,)) as served:
        yield served


@pytest.fixture
def project(tmp_path: Path) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    return Project(folder)


SCRIPT = """
import argparse, wandb
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
with wandb.init() as run:
    run.log({"loss": parser.parse_args().lr})
    run.log({"table": wandb.Table(columns=["x"], data=[[1]])})
"""
SWEEP = """
program: train.py
method: grid
metric: {name: loss, goal: minimize}
parameters: {lr: {values: [0.1, 0.2]}}
"""


def set_variables(monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def name_ways(network: Network) -> dict[str, dict[str, str]]:
    """Return environments that lead to the server, each by other variables."""
    return {
        "http": {"HTTPS_PROXY": network.http_proxy, "SSL_CERT_FILE": str(network.ca)},
        "socks": {"ALL_PROXY": network.socks_proxy, "REQUESTS_CA_BUNDLE": str(network.ca)},
        "lower": {"https_proxy": network.socks_proxy, "CURL_CA_BUNDLE": str(network.ca)},
    }


@pytest.mark.parametrize("way", ["http", "socks", "lower"])
def test_commands_and_supervisors_reach_the_server(
    network: Network, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_variables(monkeypatch, name_ways(network)[way])
    assert get_viewer(Client(URL, network.backend.key)).entity == "tester"
    reply = ask(ServerAddress(URL, network.backend.key), VIEWER, {})
    assert (reply.status, reply.error) == (200, "")
    kind = "http" if way == "http" else "socks"
    assert network.led[-2:] == [f"{kind} {HOST}"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("way", ["http", "socks"])
def test_a_sweep_runs_behind_a_gateway_and_a_proxy(
    network: Network, project: Project, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_variables(monkeypatch, name_ways(network)[way])
    monkeypatch.setitem(network.wanted_headers, "X-Gate", "open sesame")
    project.write("sweep.yaml", SWEEP)
    named = {
        "WANDB_BASE_URL": URL,
        "WANDB_API_KEY": network.backend.key,
        HEADERS_VARIABLE: json.dumps({"X-Gate": "open sesame"}),
    }
    done = project.run("up", "sweep.yaml", "--plain", **named)
    assert "2/2 configurations finished, 0 duplicates, 0 lost" in done.stdout + done.stderr
    assert "open sesame" not in done.stdout + done.stderr
    refused = project.run("results", code=1, **{**named, HEADERS_VARIABLE: ""})
    assert "403" in refused.stderr


@pytest.mark.slow
def test_an_identity_token_is_a_login_without_a_key(
    network: Network, project: Project, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    set_variables(monkeypatch, network.environment)
    token = project.write("token", f"{IDENTITY_TOKEN}\n")
    project.write("sweep.yaml", SWEEP)
    named = {"WANDB_BASE_URL": URL, TOKEN_FILE_VARIABLE: str(token)}
    done = project.run("up", "sweep.yaml", "--plain", **named)
    assert "2/2 configurations finished, 0 duplicates, 0 lost" in done.stdout + done.stderr
    kept = home / ".config" / "wandb" / "credentials.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert list(json.loads(kept.read_text())["credentials"]) == [URL]
    # One exchange, which all processes share.
    assert network.asked.count("urn:ietf:params:oauth:grant-type:jwt-bearer") == 1
    both = project.run("results", code=2, WANDB_API_KEY="k" * 40, **named)
    assert "is set in addition to WANDB_API_KEY" in both.stderr
    kept.unlink()
    token.write_text("another")
    refused = project.run("results", code=1, **named)
    assert "the identity token is refused: the assertion is not valid" in refused.stderr
    token.unlink()
    assert "No such file" in project.run("results", code=2, **named).stderr
    # The embedded backend's keys are no second login.
    embedded = project.run("up", "sweep.yaml", "--plain", "--wandb", "embedded", **named)
    assert "2/2 configurations finished" in embedded.stdout + embedded.stderr
    project.run("down", "--all", "--wandb", "embedded", **named)


@pytest.mark.parametrize("verified", ["commands", "supervisors"])
def test_an_untrusted_certificate_is_not_waited_for(
    network: Network, verified: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_variables(monkeypatch, {"HTTPS_PROXY": network.http_proxy})
    if verified == "commands":
        with pytest.raises(WandbError, match="the certificate is not trusted") as failed:
            get_viewer(Client(URL, network.backend.key))
        assert failed.value.hint.startswith("export SSL_CERT_FILE=FILE")
    else:
        reply = ask(ServerAddress(URL, network.backend.key), VIEWER, {})
        assert (reply.status, reply.passing) == (HOPELESS, False)
        assert f"the certificate of {URL} is not trusted" in reply.error


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_a_certificate_file_that_is_not_there_is_named(
    network: Network, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_variables(monkeypatch, {"HTTPS_PROXY": network.http_proxy, variable: "/no/such.pem"})
    said = f"{variable} names /no/such.pem: No such file or directory"
    with pytest.raises(ConfigError, match=said):
        Client(URL, network.backend.key)
    assert ask(ServerAddress(URL, network.backend.key), VIEWER, {}).error == said


@pytest.mark.parametrize("text", ["X-Gate: open", '["X-Gate"]', '{"X-Gate": 1}'])
def test_headers_that_are_no_json_are_refused_unseen(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HEADERS_VARIABLE, text)
    with pytest.raises(ConfigError, match="is not a JSON object") as failed:
        Client(URL, "k" * 40)
    assert "Gate" not in str(failed.value)
    reply = ask(ServerAddress(URL, "k" * 40), VIEWER, {})
    assert (reply.status, "Gate" in reply.error) == (HOPELESS, False)


def test_a_limit_is_waited_for_as_the_server_says(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_variables(monkeypatch, network.environment)
    limited = (429, {"RateLimit-Limit": "1", "RateLimit-Remaining": "0", "RateLimit-Reset": "1"})
    network.refusals += [limited] * 3
    assert get_viewer(Client(URL, network.backend.key)).entity == "tester"
    network.refusals += [limited]
    reply = ask(ServerAddress(URL, network.backend.key), VIEWER, {})
    assert (reply.status, reply.retry_after_seconds) == (429, 1.0)


@pytest.mark.parametrize(
    ("variables", "proxy"),
    [
        ({}, ""),
        ({"HTTPS_PROXY": "http://p"}, "http://p"),
        ({"HTTP_PROXY": "http://p"}, ""),
        ({"ALL_PROXY": "socks5h://p"}, "socks5h://p"),
        ({"https_proxy": "http://q", "ALL_PROXY": "http://p"}, "http://q"),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "corp.example"}, ""),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": ".corp.example, other"}, ""),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "wandb.corp.example:443"}, ""),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "wandb.corp.example:80"}, "http://p"),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "orp.example"}, "http://p"),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}, ""),
    ],
)
def test_which_proxy_leads_to_a_server(variables: dict[str, str], proxy: str) -> None:
    assert find_proxy(URL, variables) == proxy


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("https://10.1.2.3", ""),
        ("https://10.2.2.3:8443", "http://p"),
        ("https://[fd00::1]", ""),
        ("https://localhost", ""),
        ("https://127.0.0.5:1", ""),
    ],
)
def test_networks_that_no_proxy_serves(url: str, proxy: str) -> None:
    variables = {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.1.0.0/16,fd00::/8"}
    assert find_proxy(url, variables) == proxy


def test_runs_get_what_wandb_core_reads(tmp_path: Path) -> None:
    assert build_reach({}) == {}
    assert build_reach({"REQUESTS_CA_BUNDLE": "/a.pem"}) == {"SSL_CERT_FILE": "/a.pem"}
    assert build_reach({"REQUESTS_CA_BUNDLE": str(tmp_path)}) == {"SSL_CERT_DIR": str(tmp_path)}
    assert build_reach({"REQUESTS_CA_BUNDLE": "/a.pem", "SSL_CERT_FILE": "/b.pem"}) == {}
    proxies = {"HTTP_PROXY": "socks5h://p", "HTTPS_PROXY": "socks5h://p"}
    assert build_reach({"all_proxy": "socks5h://p"}) == proxies
    del proxies["HTTPS_PROXY"]
    assert build_reach({"all_proxy": "socks5h://p", "https_proxy": "http://q"}) == proxies
