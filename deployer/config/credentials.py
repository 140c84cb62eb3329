"""Find the server and the key as the W&B SDK does.

Order (SDK 0.31, `wandb/sdk/lib/wbauth`): environment, settings files, netrc. Reads files only.
"""

from __future__ import annotations

import configparser
import netrc
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from deployer.errors import ConfigError

NETRC = "each entry is: machine HOST login user password KEY; wandb login writes one"
SETTINGS = "write [default] and below it lines such as base_url = https://api.wandb.ai"
CLOUD_URL = "https://api.wandb.ai"


@dataclass(frozen=True)
class Credentials:
    """What the environment and the user's files say about W&B."""

    environment: Mapping[str, str] = field(repr=False)
    settings: Mapping[str, str] = field(repr=False)
    settings_path: Path
    netrc_path: Path

    def base_url(self) -> tuple[str, str] | None:
        """Return a server that was named, and where; a key alone means W&B's own server."""
        if url := self.environment.get("WANDB_BASE_URL"):
            return url, "WANDB_BASE_URL"
        if url := self.settings.get("base_url"):
            return url, str(self.settings_path)
        found = self._own_key() or self._netrc_key(CLOUD_URL, default_counts=False)
        return (CLOUD_URL, f"the key in {found[1]}") if found else None

    def key(self, base_url: str) -> tuple[str, str] | None:
        """Return the key for a server, and where it was found."""
        return self._own_key() or self._netrc_key(base_url, default_counts=True)

    def _own_key(self) -> tuple[str, str] | None:
        """Return the key that is for whatever server is used."""
        if key := self.environment.get("WANDB_API_KEY"):
            return key, "WANDB_API_KEY"
        if key := self.settings.get("api_key"):
            return key, str(self.settings_path)
        return None

    def _netrc_key(self, base_url: str, default_counts: bool) -> tuple[str, str] | None:
        """Look the host up with its port, as the SDK does.

        netrc's `default` entry is a key for a server that was named, no reason to choose one.
        """
        try:
            entries = _Netrc(self.netrc_path).hosts
        except FileNotFoundError:
            return None
        except netrc.NetrcParseError as error:  # its own words may hold a key
            place = f"{self.netrc_path}:{error.lineno}"
            raise ConfigError(place, "is no entry of a netrc file", NETRC) from None
        except OSError as error:
            home = self.environment.get("HOME")
            if home and not Path(home).is_dir():
                raise ConfigError("HOME", f"{home} is not a folder", "HOME=$(mktemp -d)") from error
            said = f"cannot be read: {(error.strerror or str(error)).lower()}"
            raise ConfigError(str(self.netrc_path), said, NETRC) from error
        fallback = entries.get("default") if default_counts else None
        entry = entries.get(urlsplit(base_url).netloc, fallback)
        return (entry[2], str(self.netrc_path)) if entry and entry[2] else None


class _Netrc(netrc.netrc):
    """Netrc's own parser, for which another host's entry may hold bytes that are not UTF-8."""

    def __init__(self, path: Path) -> None:
        self.hosts, self.macros = {}, {}
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            self._parse(str(path), file, False)  # type: ignore[attr-defined]


def load_credentials(environment: Mapping[str, str], folder: Path) -> Credentials:
    """Read the settings files and find netrc; the folder's own settings count over the user's."""
    user_home = Path(environment.get("HOME") or Path.home())
    config = Path(environment.get("WANDB_CONFIG_DIR") or user_home / ".config" / "wandb")
    shared = config.expanduser() / "settings"
    local = Path(environment.get("WANDB_DIR") or folder) / "wandb" / "settings"
    settings = _load_settings(shared)
    own = _load_settings(local)
    named = environment.get("NETRC")
    return Credentials(
        environment=environment,
        settings={**settings, **own},
        settings_path=local if own else shared,
        netrc_path=Path(named).expanduser() if named else user_home / ".netrc",
    )


def _load_settings(path: Path) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(path)
    except configparser.Error:  # its own words may hold a key
        raise ConfigError(str(path), "is not as wandb writes it", SETTINGS) from None
    except OSError as error:
        said = f"cannot be read: {(error.strerror or str(error)).lower()}"
        raise ConfigError(str(path), said, SETTINGS) from error
    return dict(parser["default"]) if parser.has_section("default") else {}
