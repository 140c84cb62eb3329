"""The server and the key, found like the W&B SDK does, and the owner of our objects.

Order (SDK 0.31, `wandb/sdk/lib/wbauth`): environment, netrc, settings files. Only reads files; a
broken file is a `problem`, like the SDK, which warns and continues.
"""

from __future__ import annotations

import configparser
import hashlib
import netrc
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from deployer.agent.addresses import CLOUD_URL, is_same, list_key_hosts
from deployer.agent.settings import TOKEN_FILE_VARIABLE
from deployer.config import paths
from deployer.errors import ConfigError

NETRC = "each entry is: machine HOST login user password KEY; wandb login writes one"
SETTINGS = f"write [default] and below it lines such as base_url = {CLOUD_URL}"
ID_LENGTH = 16  # hexadecimal characters: valid in labels of Kubernetes and of Google's cloud
# EKS's name for the session of an unnamed role: botocore-session-1764374400.
NAMELESS_SESSION = re.compile(r"^(arn:aws[\w-]*:sts::\d+:assumed-role/[^/]+)/.*\d$")


@dataclass(frozen=True)
class SettingsFile:
    """The content of one settings file of the SDK."""

    path: Path
    values: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class Credentials:
    """The environment's and the user's files' W&B settings.

    `files` are the settings files, the folder's own first. `problems` are the unreadable files;
    netrc's is added once it has been read.
    """

    environment: Mapping[str, str] = field(repr=False)
    files: tuple[SettingsFile, ...]
    netrc_path: Path
    problems: list[ConfigError] = field(default_factory=list)

    def base_url(self) -> tuple[str, str] | None:
        """Return the named server, and its source; a key alone means W&B's own server."""
        if url := self.environment.get("WANDB_BASE_URL"):
            return url, "WANDB_BASE_URL"
        if found := self.find_setting("base_url"):
            return found
        for login in ("WANDB_API_KEY", TOKEN_FILE_VARIABLE):
            if self.environment.get(login):
                return CLOUD_URL, f"the login in {login}"
        if entry := self._find_entry(CLOUD_URL, default_counts=False):
            return f"https://{entry[0]}", f"the key in {self.netrc_path}"
        if found := self._settings_key(CLOUD_URL):
            return CLOUD_URL, f"the key in {found[1]}"
        return None

    def is_for(self, base_url: str) -> bool:
        found = self.base_url()
        return is_same(found[0] if found else CLOUD_URL, base_url)

    def key(self, base_url: str, named: bool = True) -> tuple[str, str] | None:
        """Return the key for a server, and its source.

        The environment's key is for any server that the user has `named`, as in the SDK.
        """
        named = named or self.is_for(base_url)
        if named and (key := self.environment.get("WANDB_API_KEY")):
            return key, "WANDB_API_KEY"
        if named and self.token_file:
            return None
        if entry := self._find_entry(base_url, default_counts=named):
            return entry[1], str(self.netrc_path)
        return self._settings_key(base_url)

    @property
    def token_file(self) -> str:
        """The file with an identity token, with which the SDK logs in without a key."""
        return self.environment.get(TOKEN_FILE_VARIABLE, "")

    def find_setting(self, name: str) -> tuple[str, str] | None:
        """Return a value of the settings files, and its file."""
        for file in self.files:
            if value := file.values.get(name):
                return value, str(file.path)
        return None

    def setting(self, name: str) -> str | None:
        """Return a value of the settings files, without its file."""
        found = self.find_setting(name)
        return found[0] if found else None

    def _settings_key(self, base_url: str) -> tuple[str, str] | None:
        """Return a key of a settings file, which applies to the server in the same file."""
        for file in self.files:
            server = file.values.get("base_url") or self.environment.get("WANDB_BASE_URL")
            if (key := file.values.get("api_key")) and is_same(server or CLOUD_URL, base_url):
                return key, str(file.path)
        return None

    def _find_entry(self, base_url: str, default_counts: bool) -> tuple[str, str] | None:
        """Return netrc's host, with its port if any, and the key of a server.

        netrc's `default` entry is a key for a named server, but does not select one. As in the SDK,
        it precedes aliases of the same server.
        """
        own, *others = list_key_hosts(base_url)
        fallback = ["default"] if default_counts else []
        for host in (own, *fallback, *others):
            entry = self._entries.get(host)
            if entry and entry[2]:
                return host, entry[2]
        return None

    @cached_property
    def _entries(self) -> Mapping[str, tuple[str, str, str]]:
        try:
            return _Netrc(self.netrc_path).hosts
        except FileNotFoundError:
            return {}
        except netrc.NetrcParseError as error:  # its message may contain a key
            place = f"{self.netrc_path}:{error.lineno}"
            self.problems.append(ConfigError(place, "is not an entry of a netrc file", NETRC))
        except OSError as error:
            home = self.environment.get("HOME")
            if home and not Path(home).is_dir():
                raise ConfigError("HOME", f"{home} is not a folder", "HOME=$(mktemp -d)") from error
            self.problems.append(_refuse_file(self.netrc_path, error, NETRC))
        return {}


class _Netrc(netrc.netrc):
    """Netrc's own parser, which tolerates bytes that are not UTF-8 in other hosts' entries."""

    def __init__(self, path: Path) -> None:
        self.hosts, self.macros = {}, {}
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            self._parse(str(path), file, False)  # type: ignore[attr-defined]


def load_credentials(environment: Mapping[str, str], folder: Path) -> Credentials:
    """Read the settings files and find netrc; the folder's settings override the user's."""
    user_home = Path(environment.get("HOME") or Path.home())
    config = Path(environment.get("WANDB_CONFIG_DIR") or user_home / ".config" / "wandb")
    root = Path(environment.get("WANDB_DIR") or folder).expanduser()
    local = root / (".wandb" if (root / ".wandb").exists() else "wandb")
    problems: list[ConfigError] = []
    paths = (local / "settings", config.expanduser() / "settings")
    return Credentials(
        environment=environment,
        files=tuple(SettingsFile(path, _load_settings(path, problems)) for path in paths),
        netrc_path=_find_netrc(environment, user_home),
        problems=problems,
    )


def _find_netrc(environment: Mapping[str, str], home: Path) -> Path:
    if named := environment.get("NETRC"):
        return Path(named).expanduser()
    usual, other = home / ".netrc", home / "_netrc"
    return other if other.exists() and not usual.exists() else usual


def _load_settings(path: Path, problems: list[ConfigError]) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(path)
        return dict(parser["default"]) if parser.has_section("default") else {}
    except (configparser.Error, UnicodeDecodeError):  # their messages may contain a key
        problems.append(ConfigError(str(path), "is not in wandb's format", SETTINGS))
    except OSError as error:
        problems.append(_refuse_file(path, error, SETTINGS))
    return {}


def _refuse_file(path: Path, error: OSError, hint: str) -> ConfigError:
    said = f"cannot be read: {(error.strerror or str(error)).lower()}"
    return ConfigError(str(path), said, hint)


# The owner of the objects that we create: an id for labels, and a readable name. The label prevents
# accidents, not malice: docs/threats.md.


@dataclass(frozen=True)
class Owner:
    """`id` is the value of the owner label; `name` is for people."""

    id: str
    name: str = field(compare=False)


# The owner in plans, because only a server knows the real one.
UNKNOWN_OWNER = Owner("OWNER", "OWNER")


def drop_session(user: str) -> str:
    return NAMELESS_SESSION.sub(r"\1", user)


def build_owner(name: str) -> Owner:
    """Return the owner of this name: a server's name for the user, or `--owner`."""
    return Owner(hashlib.sha256(name.encode()).hexdigest()[:ID_LENGTH], name)


def load_random_owner() -> Owner:
    """Return this state folder's own owner, created once, for servers without user names."""
    path = paths.home() / "owner"
    if not path.exists():
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.write_text(secrets.token_hex(ID_LENGTH // 2), encoding="utf-8")
        try:
            os.link(partial, path)  # keeps the file of a faster command
        except FileExistsError:
            pass
        finally:
            partial.unlink()
    return Owner(found := path.read_text(encoding="utf-8").strip(), f"state folder {found[:6]}")
