"""Translates errors of registries and tools to an `ImageError` with a hint; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import requests

from deployer.config.image_reference import Repository
from deployer.errors import ImageError
from deployer.waiting import is_passing

LINE_LETTERS = 300
TAIL_LINES = 8
LOGIN = "export DEPLOYER_REGISTRY_USER=… DEPLOYER_REGISTRY_PASSWORD=…, or docker login {host}"
GOOGLE_LOGIN = "gcloud auth application-default login"
OWN_CA = "export DEPLOYER_REGISTRY_CA=FILE, or `ca:` in deployer.yaml's section `image:`"
FREE_SPACE = "free some: docker system prune, podman system prune or buildah prune; see df -h"
FAILED = r"(?i)(#\d+ [\d.]+ )?(error|fatal)\b"
# The tool's own line about an inner failure; the reason is further up.
WRAPPED = r"building at STEP|exit status|exit code|did not complete successfully"
# Patterns of a tool's output, with hints; the first match counts.
REMEDIES = (
    (r"no space left on device|disk quota exceeded", FREE_SPACE),
    (r"x509|certificate signed by unknown|CERTIFICATE_VERIFY|UnknownIssuer", "TLS"),
    (r"toomanyrequests|rate limit", "docker login, or another base: build_args: {{BASE: …}}"),
    (
        r"manifest unknown|pull access denied|short-name|initializing source|no such image",
        "check that the base image exists and that you may pull it; "
        "build_args: {{BASE: …}} sets another",
    ),
    (
        r"failed to fetch|dns error|resolve host|name resolution|No matching distribution",
        "check the connection to the package index; UV_DEFAULT_INDEX and PIP_INDEX_URL set "
        "another one, HTTPS_PROXY a proxy",
    ),
    (
        r"exec format error",
        "`platform:` in the section `image:` is not this machine's; install qemu-user-static",
    ),
    (
        r"connect to the docker daemon|permission denied while|newuidmap|user namespace"
        r"|operation not permitted",
        "choose another tool (`image: {{builder: …}}`), or run it as a user who may build",
    ),
    (r"unauthorized|authentication required|denied:|access denied", LOGIN),
    (
        r"connection refused|connection reset|i/o timeout|unexpected EOF|no such host",
        "check that the registry is up and reachable, then try again: uploaded parts are kept",
    ),
)
TLS_HINT = "for the package index: export SSL_CERT_FILE=FILE; for a registry: " + OWN_CA
DOCKER_CA = "docker reads /etc/docker/certs.d/{host}/ca.crt; podman and buildah need no such file"


@dataclass(frozen=True)
class RegistryLogin:
    """The registry, and the login used there."""

    repository: Repository
    source: str = ""
    user: str = ""


def build_refusal(answer: requests.Response, what: str, login: RegistryLogin) -> ImageError:
    status, said = answer.status_code, _read_words(answer)
    repository = login.repository
    as_whom = f" as {login.user} (from {login.source})" if login.user else " without a login"
    message = f"cannot {what} {repository}{as_whom}: {said}"
    if answer.status_code == 404 and repository.is_artifact_registry:
        return ImageError(message, _make_repository(repository), status)
    if answer.status_code == 401:
        hint = GOOGLE_LOGIN if repository.is_google else LOGIN.format(host=repository.host)
        return ImageError(message, hint, status)
    if answer.status_code == 403:
        return ImageError(message, _allow(repository), status)
    if answer.status_code == 404:
        return ImageError(message, f"make the repository {repository} in the registry", status)
    if "DIGEST_INVALID" in answer.text:
        return ImageError(message, "the file is damaged: copy it again")
    if answer.status_code in (507, 413):
        return ImageError(message, "free some space in the registry")
    if answer.status_code == 400 and "HTTPS server" in answer.text:
        return ImageError(message, "remove `plain_http`: the registry uses TLS")
    busy = is_passing(answer.status_code)
    return ImageError(message, "type the command again in a minute" if busy else "", status)


def build_foreign_login(url: str, what: str, repository: Repository) -> ImageError:
    other = urlsplit(url).netloc
    message = (
        f"cannot {what} {repository}: the registry redirects to {other}, which requires a login"
    )
    hint = (
        f"the login is for {repository.host} alone; if {other} is the registry's own name:"
        f" image: {{repository: {other}/{repository.path}}}"
    )
    return ImageError(message, hint, 401)


def translate_failure(error: requests.RequestException, login: RegistryLogin) -> ImageError:
    repository, words = login.repository, str(error)
    if "wrong version number" in words.lower() or "record layer" in words.lower():
        hint = "`plain_http: true` in deployer.yaml's section `image:` if this is intended"
        return ImageError(f"{repository.host} does not use TLS", hint)
    if isinstance(error, OSError) and "invalid path" in words:
        return ImageError(f"the certificate authority's file: {words}", OWN_CA)
    if isinstance(error, requests.exceptions.SSLError):
        found = re.search(r"certificate verify failed: ([^(\"']+)", words)
        said = found[1].strip() if found else "TLS failed"
        return ImageError(f"{repository.host}: its certificate is not trusted: {said}", OWN_CA)
    if isinstance(error, requests.exceptions.Timeout):
        return ImageError(f"{repository.host} does not answer", "type the command again")
    return ImageError(
        f"cannot reach the registry {repository.host}: {_innermost(error)}",
        "check the registry's name, that it is running, and HTTPS_PROXY",
    )


def build_tool_failure(
    what: str, lines: Sequence[str], host: str = "", docker: bool = False
) -> ImageError:
    """Translate a tool's last lines: its error in line 1, more of them below."""
    said = [_shorten(line) for line in lines if line.strip()]
    wrong = [line for line in said if re.match(FAILED, line) and not re.search(WRAPPED, line)]
    first = (wrong or said or ["no output"])[-1]
    tail = [line for line in said[-TAIL_LINES:] if line != first]
    # Lines of the Dockerfile are not errors.
    words = "\n".join(line for line in lines if not re.search(r"\bSTEP\b", line))
    hint = _find_remedy(words, host, docker)
    return ImageError("\n  ".join([f"{what}: {first}", *tail]), hint)


def _find_remedy(words: str, host: str, docker: bool) -> str:
    for pattern, hint in REMEDIES:
        if re.search(pattern, words, re.IGNORECASE):
            if hint != "TLS":
                return hint.format(host=host or "REGISTRY")
            return DOCKER_CA.format(host=host) if docker and host else TLS_HINT
    return "its last lines say why; fix the Dockerfile, or the section `image:`"


def _read_words(answer: requests.Response) -> str:
    """Return a registry's own sentence, or HTTP's phrase as fallback."""
    try:
        errors = answer.json()["errors"]
        said = "; ".join(str(one.get("message") or one.get("code")) for one in errors)
    except (ValueError, KeyError, TypeError, AttributeError):
        said = ""
    status = f"{answer.status_code} {answer.reason}".strip()
    return f"{_shorten(said)} ({status})" if said else status


def _make_repository(repository: Repository) -> str:
    location, project, name = repository.google_place
    return (
        f"gcloud artifacts repositories create {name} --repository-format=docker "
        f"--location={location} --project={project}"
    )


def _allow(repository: Repository) -> str:
    if not repository.is_artifact_registry:
        return (
            f"ask the administrator of {repository.host} for the right to push to {repository.path}"
        )
    location, project, name = repository.google_place
    return (
        f"gcloud artifacts repositories add-iam-policy-binding {name} --location={location} "
        f"--project={project} --member=user:YOU --role=roles/artifactregistry.writer"
    )


def _innermost(error: BaseException) -> str:
    """Return the innermost reason that requests and urllib3 wrap."""
    found = re.search(r"\[Errno -?\d+\] ([^'\")]+)", str(error))
    return found[1] if found else _shorten(str(error))


def _shorten(line: str) -> str:
    """Shorten a long line in the middle: its start names the failure, its end the reason."""
    line, half = " ".join(line.split()), LINE_LETTERS // 2
    return line if len(line) <= LINE_LETTERS else f"{line[:half]} … {line[-half:]}"
