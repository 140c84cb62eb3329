"""Flag over environment over `deployer.yaml` over default, as one frozen `Config`.

Contacts nothing. Decides which W&B: the flag, `deployer.yaml`, the SDK's own settings, then the
embedded backend.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from deployer.config.credentials import Credentials, load_credentials
from deployer.errors import ConfigError, ConfigErrors

FILE_NAME = "deployer.yaml"
EMBEDDED = "embedded"
PLACES = ("local", "kubernetes", "gke")
KEYS: dict[str, type] = {
    "wandb": str,
    "entity": str,
    "project": str,
    "replicas": int,
    "on": str,
    "kubernetes": dict,
    "gke": str,
    "image": dict,
    "backend": dict,
}
KINDS = {str: "text", int: "a whole number", dict: "a mapping"}


@dataclass(frozen=True)
class Flags:
    """What was said on the command line; None where nothing was."""

    wandb: str | None = None
    entity: str | None = None
    project: str | None = None
    replicas: int | None = None
    on: str | None = None


@dataclass(frozen=True)
class Config:
    """Everything decided before anything is contacted.

    `wandb` is `embedded` or a base URL, `key` its key: empty for embedded, and where there is none,
    which matters only to what contacts the server. `given_replicas` is None where nobody named a
    number and `replicas` is the default; `explicit_on` tells whether somebody named the place.
    A sweep file's entity and project count more than `deployer.yaml`'s and less than the
    environment's, as W&B has it. `gke` is the file of the GKE cluster, or the name of one of ours.
    `known_backend_on` is where the embedded backend of a sweep that is there already is.
    """

    folder: Path
    wandb: str
    wandb_source: str
    key: str = field(repr=False)
    key_source: str
    entity: str | None
    project: str | None
    file_entity: str | None
    file_project: str | None
    replicas: int
    on: str
    explicit_wandb: bool
    credentials: Credentials = field(repr=False)
    given_replicas: int | None = None
    explicit_on: bool = False
    gke: str | None = None
    known_backend_on: str | None = None

    @property
    def embedded(self) -> bool:
        """Tell whether the embedded backend is meant."""
        return self.wandb == EMBEDDED

    @property
    def backend_on(self) -> str:
        """Return the place of the embedded backend that is meant: that of new agents, if new."""
        return self.known_backend_on or self.on

    def for_server(self, wandb: str, source: str) -> Config:
        """Return the same config for another server: the one where a sweep was made."""
        url = normalise_server(wandb, source)
        key, key_source = _find_key(url, self.credentials)
        return replace(self, wandb=url, wandb_source=source, key=key, key_source=key_source)

    def require_key(self) -> str:
        """Return the key; raises ConfigError for a base URL without one."""
        if self.embedded or self.key:
            return self.key
        raise ConfigError(
            self.wandb_source,
            f"there is no key for {self.wandb}",
            f"wandb login --host {self.wandb}, or export WANDB_API_KEY=…, or use --wandb embedded",
        )

    def entity_for(self, of_sweep: str | None, of_viewer: str) -> str:
        """Return the entity for a new sweep; the embedded backend has no use for WANDB_ENTITY."""
        return self.entity or of_sweep or self.file_entity or of_viewer

    def project_for(self, of_sweep: str | None, program: str | None) -> str:
        """Return the project for a new sweep, derived from the program's place if none is named."""
        named = self.project or of_sweep or self.file_project
        return named or derive_project(program, self.folder)


def load_config(flags: Flags, environment: Mapping[str, str], folder: Path) -> Config:
    """Read `deployer.yaml` in `folder`, the environment and the user's W&B files.

    Raises ConfigError, or ConfigErrors with every complaint about the file.
    """
    path = folder / FILE_NAME
    values = load_file(path)
    credentials = load_credentials(environment, folder)
    given = flags.replicas if flags.replicas is not None else values.get("replicas")
    wandb, source, explicit = _choose_server(flags, values, credentials, path)
    key, key_source = _find_key(wandb, credentials)
    # WANDB_ENTITY and WANDB_PROJECT name things on the server that the SDK is set up for.
    ours = wandb == EMBEDDED
    return Config(
        folder=folder,
        wandb=wandb,
        wandb_source=source,
        key=key,
        key_source=key_source,
        entity=flags.entity or (None if ours else environment.get("WANDB_ENTITY")) or None,
        project=flags.project or environment.get("WANDB_PROJECT") or None,
        file_entity=values.get("entity"),
        file_project=values.get("project"),
        replicas=1 if given is None else given,
        on=_choose_place(flags.on, values, path),
        explicit_wandb=explicit,
        credentials=credentials,
        given_replicas=given,
        explicit_on=bool(flags.on or "on" in values),
        gke=values.get("gke"),
    )


def load_file(path: Path) -> dict[str, Any]:
    """Read `deployer.yaml`; empty when there is none. Raises ConfigErrors."""
    if not path.exists():
        return {}
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(str(path), "is not a mapping", "write lines such as `replicas: 2`")
    # YAML 1.1 reads the key `on` as true.
    named = {"on" if key is True else str(key): value for key, value in values.items()}
    errors = [e for key, value in named.items() if (e := _problem(path, key, value))]
    for section, kind in KEYS.items():
        if kind is dict and isinstance(named.get(section), dict):
            errors += _section_problems(path, section)
    if errors:
        raise ConfigErrors(errors)
    return named


def normalise_server(wandb: str, source: str) -> str:
    """Return `embedded` or a base URL without a slash at its end; raises ConfigError."""
    if wandb == EMBEDDED:
        return wandb
    if wandb.startswith(("http://", "https://")):
        return wandb.rstrip("/")
    raise ConfigError(
        source,
        f"'{wandb}' is neither `embedded` nor an address",
        "write `embedded`, or an address such as https://api.wandb.ai",
    )


def derive_project(program: str | None, folder: Path) -> str:
    """Name a project after the git repository and the program's folder in it, as W&B does.

    Source: `auto_project_name` in wandb/util.py.
    """
    root = next((p for p in (folder, *folder.parents) if (p / ".git").exists()), None)
    if root is None:
        return "uncategorized"
    place = (folder / program).resolve().parent if program else root
    if not place.is_relative_to(root):
        return root.name
    inside = "_".join(place.relative_to(root).parts)
    return f"{root.name}-{inside}" if inside else root.name


def _choose_server(
    flags: Flags, values: dict[str, Any], credentials: Credentials, path: Path
) -> tuple[str, str, bool]:
    if flags.wandb:
        return normalise_server(flags.wandb, "--wandb"), "--wandb", True
    if named := values.get("wandb"):
        source = f"{path.name}: wandb"
        return normalise_server(named, source), source, False
    if found := credentials.base_url():
        return normalise_server(*found), found[1], False
    return EMBEDDED, "default", False


def _find_key(wandb: str, credentials: Credentials) -> tuple[str, str]:
    found = None if wandb == EMBEDDED else credentials.key(wandb)
    return found or ("", "")


def _choose_place(flag: str | None, values: dict[str, Any], path: Path) -> str:
    place, source = (flag, "--on") if flag else (values.get("on", "local"), f"{path.name}: on")
    if place not in PLACES:
        raise ConfigError(source, f"'{place}' is not a place", f"one of: {', '.join(PLACES)}")
    return str(place)


def _problem(path: Path, key: str, value: Any) -> ConfigError | None:
    if key not in KEYS:
        near = difflib.get_close_matches(key, KEYS, n=1)
        hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(KEYS)}"
        return ConfigError(f"{path.name}: {key}", "unknown key", hint)
    if isinstance(value, bool) or not isinstance(value, KEYS[key]):
        return ConfigError(f"{path.name}: {key}", f"{value!r} is not {KINDS[KEYS[key]]}")
    if isinstance(value, int) and value < 1:
        return ConfigError(f"{path.name}: {key}", f"{value} is below 1")
    return None


def _section_problems(path: Path, section: str) -> list[ConfigError]:
    from deployer.config.backend_section import load_backend_config
    from deployer.config.image_section import load_image_config
    from deployer.config.kubernetes_section import load_cluster  # 0.1 s, for who has a cluster

    readers: dict[str, Callable[[Path], object]] = {
        "kubernetes": load_cluster,
        "image": load_image_config,
        "backend": load_backend_config,
    }
    try:
        readers[section](path.parent)
    except ConfigErrors as error:
        return list(error.errors)
    return []
