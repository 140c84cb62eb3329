"""Reads kubeconfigs as kubectl does: which files, which entry wins, base of relative paths.

The rules are those of client-go v0.37 (`tools/clientcmd/loader.go`; November 2026);
`tests/outside/test_kubeconfigs.py` compares with kubectl itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deployer.errors import ConfigError

HOME_KUBECONFIG = "~/.kube/config"
SHOW_KUBECONFIG = "kubectl config view; KUBECONFIG names the file"
NO_KUBECONFIG = (
    "export KUBECONFIG=FILE, the one that your cluster's administrator or provider gave you"
)
# The key of each list's items, and Go's name for them in messages.
LISTS = {
    "clusters": ("cluster", "NamedCluster"),
    "users": ("user", "NamedAuthInfo"),
    "contexts": ("context", "NamedContext"),
}
# The fields of each entry and their types: client-go v0.37, tools/clientcmd/api/v1/types.go.
TEXTS = {
    "clusters": (
        *("server", "tls-server-name", "proxy-url"),
        *("certificate-authority", "certificate-authority-data"),
    ),
    "users": (
        *("token", "tokenFile", "username", "password", "as"),
        *("client-certificate", "client-certificate-data", "client-key", "client-key-data"),
    ),
    "contexts": ("cluster", "user", "namespace"),
}
EXCLUSIVE = ("certificate-authority", "client-certificate", "client-key")  # or with `-data`
PLUGIN_TEXTS = ("apiVersion", "command", "installHint", "interactiveMode")


@dataclass(frozen=True)
class NamedEntry:
    """A cluster, user or context, and its file."""

    values: Mapping[str, Any]
    file: Path

    def resolve(self, name: str) -> Path | None:
        """Return a path, relative to the file's folder; None if it is missing."""
        named = self.values.get(name)
        return self.file.parent / str(named) if named else None

    def get(self, name: str) -> str:
        return str(self.values.get(name) or "")


@dataclass(frozen=True)
class Kubeconfig:
    """All files merged; the first file with an entry wins. `files` are their names."""

    files: str
    current: str
    clusters: Mapping[str, NamedEntry]
    users: Mapping[str, NamedEntry]
    contexts: Mapping[str, NamedEntry]

    def choose_context(self, wanted: str | None) -> tuple[str, NamedEntry]:
        """Return the wanted context, else the current one. Raises ConfigError."""
        name = wanted or self.current
        if name in self.contexts:
            return name, self.contexts[name]
        names = ", ".join(self.contexts)
        if wanted:
            said = f"context '{wanted}' not found in {self.files}"
            raise ConfigError("context", said, f"name one of: {names}")
        said = "no current context is set"
        if name:
            said = f"has no context {name}, which is its current one"
        hint = f"kubectl config use-context NAME, one of: {names}"
        raise ConfigError(self.files, said, hint if names else NO_KUBECONFIG)

    def find(self, kind: str, context: str, name: str) -> NamedEntry:
        """Return the cluster or user of a context; an empty entry for an unnamed user."""
        listed: Mapping[str, NamedEntry] = getattr(self, f"{kind}s")
        if name in listed:
            return listed[name]
        if not name and kind == "user":
            return NamedEntry({}, Path(self.files))
        said = f'context "{context}": {kind} "{name}" does not exist'
        raise ConfigError(self.files, said, SHOW_KUBECONFIG)


def list_files(environment: Mapping[str, str]) -> tuple[str, list[Path]]:
    named = environment.get("KUBECONFIG") or HOME_KUBECONFIG
    parts = dict.fromkeys(part for part in named.split(os.pathsep) if part)
    paths = [Path(part).expanduser() for part in parts]
    return named, [path for path in paths if path.exists()]


def load_kubeconfig(environment: Mapping[str, str]) -> Kubeconfig:
    """Read KUBECONFIG, else ~/.kube/config. Raises ConfigError."""
    named, paths = list_files(environment)
    current = ""
    found: dict[str, dict[str, NamedEntry]] = {name: {} for name in LISTS}
    for path in paths:
        content = _read(path)
        for name, entries in found.items():
            for key, values in _list_entries(path, content, name):
                entries.setdefault(key, NamedEntry(values, path))
        current = current or _read_text(path, content, "current-context", "Config.current-context")
    return Kubeconfig(named, current, **found)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        # JSON may contain tabs, unlike YAML. Of several documents kubectl reads the first.
        is_json = text.lstrip().startswith("{")
        content = json.loads(text) if is_json else next(yaml.safe_load_all(text), None)
    except OSError as error:
        said = f"cannot be read: {error.strerror}"
        raise ConfigError(str(path), said, SHOW_KUBECONFIG) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(str(path), "is not valid YAML", SHOW_KUBECONFIG) from error
    if content is not None and not isinstance(content, dict):
        raise _refuse(path, content, "Config", "v1.Config")
    return content or {}


def _list_entries(
    path: Path, content: Mapping[str, Any], name: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the entries of a list by name. Raises ConfigError with kubectl's messages."""
    singular, kind = LISTS[name]
    listed = content.get(name)
    if listed is not None and not isinstance(listed, list):
        raise _refuse(path, listed, f"Config.{name}", f"[]v1.{kind}")
    for one in listed or ():
        if not isinstance(one, dict):
            raise _refuse(path, one, f"Config.{name}", f"v1.{kind}")
        key = _read_text(path, one, "name", f"{kind}.{name}.name")
        values = one.get(singular)
        if values is not None and not isinstance(values, dict):
            wanted = f"v1.{kind.removeprefix('Named')}"
            raise _refuse(path, values, f"{kind}.{name}.{singular}", wanted)
        _check_values(path, values or {}, name, key)
        yield key, values or {}


def _check_values(path: Path, values: Mapping[str, Any], name: str, key: str) -> None:
    """Refuse values of types that client-go does not accept. Raises ConfigError."""
    kind = LISTS[name][1].removeprefix("Named")
    place = f"{kind}.{name}.{LISTS[name][0]}"
    for text in TEXTS[name]:
        _read_text(path, values, text, f"{place}.{text}")
    insecure = values.get("insecure-skip-tls-verify")
    if not isinstance(insecure, bool | None):
        raise _refuse(path, insecure, f"{place}.insecure-skip-tls-verify", "bool")
    if insecure and any(values.get(f"certificate-authority{end}") for end in ("", "-data")):
        said = "specifying a root certificates file with the insecure flag is not allowed"
        raise ConfigError(str(path), said, SHOW_KUBECONFIG)
    for one in EXCLUSIVE:
        if values.get(one) and values.get(f"{one}-data"):
            said = f"{one}-data and {one} are both specified for {key}"
            raise ConfigError(str(path), said, "remove one of them")
    for one in ("exec", "auth-provider"):
        if not isinstance(values.get(one), dict | None):
            raise _refuse(path, values[one], f"{place}.{one}", "api.ExecConfig")
    _check_plugin(path, values.get("exec") or {}, f"ExecConfig.{place.partition('.')[2]}.exec")


def _check_plugin(path: Path, plugin: Mapping[str, Any], place: str) -> None:
    for text in PLUGIN_TEXTS:
        _read_text(path, plugin, text, f"{place}.{text}")
    for text, wanted in (("args", str), ("env", dict)):
        listed = plugin.get(text)
        if not isinstance(listed, list | None):
            raise _refuse(path, listed, f"{place}.{text}", "[]string")
        for one in listed or ():
            if not isinstance(one, wanted):
                raise _refuse(path, one, f"{place}.{text}", "string")
    for one in plugin.get("env") or ():
        for text in ("name", "value"):
            _read_text(path, one, text, f"ExecEnvVar.{place.partition('.')[2]}.env.{text}")


def _read_text(path: Path, values: Mapping[str, Any], name: str, field: str) -> str:
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise _refuse(path, value, field, "string")
    return value or ""


def _refuse(path: Path, value: object, field: str, wanted: str) -> ConfigError:
    """Return the error for a value of a type that Go's decoder rejects, with its message."""
    kinds = ((bool, "bool"), (int | float, "number"), (str, "string"), (list, "array"))
    kind = next((name for one, name in kinds if isinstance(value, one)), "object")
    said = f"json: cannot unmarshal {kind} into Go struct field {field} of type {wanted}"
    return ConfigError(str(path), said, 'write names in quotes, such as "1"')
