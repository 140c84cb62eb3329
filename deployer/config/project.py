"""Merge flags, environment, deployer.yaml and defaults into one frozen `Project`.

Contacts nothing. Selects the W&B server: the flag, deployer.yaml, the SDK's own settings, then the
embedded backend. Lower layers take the project, and read none of these sources again.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from deployer.agent.addresses import CLOUD_URL, is_same, normalise
from deployer.agent.settings import TOKEN_FILE_VARIABLE
from deployer.config.credentials import Credentials, load_credentials
from deployer.config.document import (
    FILE_NAME,
    Document,
    find_too_many,
    parse_document,
    place_of_flag,
    place_of_key,
    read_document,
)
from deployer.errors import ConfigError

if TYPE_CHECKING:
    from deployer.config.data import DataSet
    from deployer.config.image import ImageConfig
    from deployer.config.kubernetes import ClusterConfig
    from deployer.config.settings import BackendConfig, LocalConfig, MetricsConfig, Settings
# With these variables W&B's SDK knows the commit without a repository.
COMMIT_VARIABLE = "WANDB_GIT_COMMIT"
REPOSITORY_VARIABLE = "WANDB_GIT_REMOTE_URL"
LOG = logging.getLogger(__name__)
EMBEDDED = "embedded"
DEFAULT = "default"  # the source of the default server
LOCAL = "local"  # the default executor
KUBERNETES = "kubernetes"  # the default with a context or namespace


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


@dataclass(frozen=True)
class Code:
    """The code of runs: local runs work in `folder`, and pods in an archive of its files.

    For code from git, `commit` is the full hash, and `repository` its address without credentials.
    """

    folder: Path
    commit: str = ""
    repository: str = ""

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """Return the environment variables that give runs their commit."""
        named = {COMMIT_VARIABLE: self.commit, REPOSITORY_VARIABLE: self.repository}
        return tuple((name, value) for name, value in named.items() if value)


@dataclass(frozen=True)
class Flags:
    """The flags of the command line; None if a flag is absent."""

    wandb: str | None = None
    entity: str | None = None
    project: str | None = None
    replicas: int | None = None
    on: str | None = None
    owner: str | None = None
    context: str | None = None
    namespace: str | None = None

    @property
    def cluster(self) -> Mapping[str, str]:
        named = (("context", self.context), ("namespace", self.namespace))
        return {name: value for name, value in named if value is not None}


@dataclass(frozen=True)
class Project:
    """The merged configuration, and the choices made before anything is contacted.

    `wandb` is `embedded` or a base URL. `key` is its key: empty for embedded, and if there is none,
    which matters only to code that contacts the server. `given_replicas` is None if `replicas` is
    the default. `explicit_on` is True if the user named the executor. As in W&B, a sweep file's
    entity and project override those of `deployer.yaml`, and the environment overrides both.
    `known_backend_on` is the executor of an existing sweep's embedded backend. `known_data` is the
    data folder of a backend that was copied here before its cluster was deleted. `given_settings`
    is deployer.yaml as of the command's start. It is None without the file, unless flags name a
    cluster. `resolved_code` is the checked-out commit of the section `code:`. `named_cluster` has
    the context and namespace that flags name, or that flags named when the sweep's agents were
    started. `owner` names the owner of created objects; None: as the API server or the cloud names
    the user. `by_page_alone`: only a sweep's page names the server, so it gets no login of another
    server.
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
    known_backend_on: str | None = None
    known_data: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    given_settings: Settings | None = field(default=None, repr=False)
    resolved_code: Code | None = None
    owner: str | None = None
    by_page_alone: bool = False
    named_cluster: Mapping[str, str] = field(default_factory=dict)

    @property
    def embedded(self) -> bool:
        return self.wandb == EMBEDDED

    @property
    def backend_on(self) -> str:
        """Return the executor of the embedded backend if known, else that of new agents."""
        return self.known_backend_on or self.on

    @property
    def code(self) -> Code:
        """Return the code that agents run: this folder unchanged, unless a commit was chosen."""
        return self.resolved_code or Code(self.folder)

    @property
    def on_option(self) -> str:
        """Return the options that select the place in a command; empty for the default."""
        return "" if self.on == LOCAL else f" --on {self.on}{self.cluster_options}"

    @property
    def cluster_options(self) -> str:
        return "".join(f" --{name} {quote(one)}" for name, one in self.named_cluster.items())

    @cached_property
    def settings(self) -> Settings:
        """The settings of deployer.yaml, with defaults for missing ones."""
        if self.given_settings is not None:
            return self.given_settings
        from deployer.config.settings import check_settings  # pydantic, as below

        return check_settings(parse_document("", FILE_NAME))

    @property
    def kubernetes(self) -> ClusterConfig:
        return self.settings.kubernetes

    @property
    def code_from_git(self) -> bool:
        return self.settings.code == "git"

    @property
    def image(self) -> ImageConfig:
        return self.settings.image

    @property
    def backend(self) -> BackendConfig:
        return self.settings.backend

    @property
    def data(self) -> tuple[DataSet, ...]:
        return self.settings.data

    @property
    def metrics(self) -> MetricsConfig:
        return self.settings.metrics

    @property
    def local(self) -> LocalConfig:
        return self.settings.local

    def with_image(self, image: str) -> Project:
        """Return the same config for agents in this image, overriding deployer.yaml."""
        return self.with_kubernetes(image=image)

    def with_kubernetes(self, **values: Any) -> Project:
        """Return the same config with other values in its section `kubernetes:`."""
        from deployer.config.check import change  # pydantic, as above

        section = change(self.kubernetes, f"{FILE_NAME}: kubernetes", **values)
        return self.with_settings(kubernetes=section)

    def with_cluster(self, context: str, namespace: str) -> Project:
        """Return the same config for a context and namespace, overriding flags."""
        found = {"context": context, "namespace": namespace}
        named = {name: value for name, value in found.items() if value}
        return replace(self.with_kubernetes(**named), named_cluster=named)

    def with_settings(self, **values: Any) -> Project:
        return replace(self, given_settings=replace(self.settings, **values))

    def for_server(self, wandb: str, source: str, named: bool = True) -> Project:
        """Return the same config for another server, where a sweep was created.

        A server that is not `named` by the user, but by a page, gets only its own key.
        """
        url = normalise_server(wandb, source)
        if EMBEDDED not in (url, self.wandb) and is_same(url, self.wandb):
            return self  # keep the name, and its key
        login = None if url == EMBEDDED else self.credentials.key(url, named=named)
        key, key_source = login or ("", "")
        foreign = not (named or self.credentials.is_for(url))
        return replace(
            self,
            wandb=url,
            wandb_source=source,
            key=key,
            key_source=key_source,
            by_page_alone=foreign,
        )

    def check_login(self) -> None:
        """Refuse two logins at once, and no login if a file that may hold one is unreadable.

        Raises ConfigError.
        """
        token_file = self.credentials.token_file
        if not self.embedded and token_file and self.environment.get("WANDB_API_KEY"):
            said = "is set in addition to WANDB_API_KEY, which the SDK refuses"
            raise ConfigError(TOKEN_FILE_VARIABLE, said, f"unset {TOKEN_FILE_VARIABLE}")
        is_doubtful = self.wandb_source == DEFAULT if self.embedded else not self.has_login
        if is_doubtful and self.credentials.problems:
            raise self.credentials.problems[0]

    @property
    def has_login(self) -> bool:
        """Return True if there is a key or an identity token for the server."""
        return bool(self.key or (self.credentials.token_file and not self.by_page_alone))

    def require_key(self) -> str:
        """Return the key, empty for an identity token; raises ConfigError without either."""
        if self.embedded or self.has_login:
            return self.key
        raise ConfigError(
            self.wandb_source,
            f"no key found for {self.wandb}",
            f"wandb login --host {self.wandb}, or export WANDB_API_KEY=…, or use --wandb embedded",
        )

    def entity_for(self, of_sweep: str | None, of_viewer: str) -> str:
        """Return the entity for a new sweep; the embedded backend ignores WANDB_ENTITY."""
        return self.entity or of_sweep or self.file_entity or of_viewer

    def project_for(self, of_sweep: str | None, program: str | None) -> str:
        """Return the project for a new sweep, by default derived from the program's path."""
        named = self.project or of_sweep or self.file_project
        return named or derive_project(program, self.folder)


def load_project(
    flags: Flags, environment: Mapping[str, str], folder: Path, executors: Collection[str]
) -> Project:
    """Read deployer.yaml in `folder`, the environment and the user's W&B files, each once.

    `executors` are the valid values of `--on`. Raises ConfigError with every complaint about the
    file.
    """
    document = read_document(folder)
    settings = _read_settings(flags, document)
    values: Mapping[str, Any] = {} if settings is None else vars(settings)
    if flags.replicas is not None:
        place = place_of_flag("--replicas", str(flags.replicas), environment)
        if error := find_too_many(place, flags.replicas):
            raise error
    credentials = load_credentials(environment, folder)
    given = flags.replicas if flags.replicas is not None else values.get("replicas")
    wandb, source, explicit = _choose_server(flags, document, values, credentials)
    key, key_source = _find_key(wandb, credentials)
    if key or credentials.token_file or explicit:
        for problem in credentials.problems:
            LOG.warning(f"{problem}; it is ignored")
    on = (flags.on, place_of_flag("--on", flags.on, environment)) if flags.on else None
    of_file = LOCAL if values.get("on") is None else values["on"]
    if flags.cluster and not on and of_file == LOCAL:
        of_file = KUBERNETES
    # WANDB_ENTITY and WANDB_PROJECT belong to the server that the SDK is set up for.
    ours = wandb == EMBEDDED
    return Project(
        folder=folder,
        wandb=wandb,
        wandb_source=source,
        key=key,
        key_source=key_source,
        entity=flags.entity or (None if ours else environment.get("WANDB_ENTITY")) or None,
        project=flags.project or environment.get("WANDB_PROJECT") or None,
        file_entity=values.get("entity") or (None if ours else credentials.setting("entity")),
        file_project=values.get("project") or credentials.setting("project"),
        replicas=1 if given is None else given,
        on=_choose_executor(on, document, executors, of_file),
        explicit_wandb=explicit,
        credentials=credentials,
        given_replicas=given,
        explicit_on=bool(flags.on or flags.cluster) or values.get("on") is not None,
        environment=environment,
        given_settings=settings,
        owner=flags.owner or environment.get("DEPLOYER_OWNER") or values.get("owner"),
        named_cluster=flags.cluster,
    )


def normalise_server(wandb: str, source: str) -> str:
    """Return `embedded` or a base URL without a trailing slash; raises ConfigError."""
    if wandb == EMBEDDED:
        return wandb
    hint = f"write `embedded`, or an address such as {CLOUD_URL}"
    if wandb.startswith(("http://", "https://")):
        check_address(wandb, source, hint)
        return normalise(wandb)
    raise ConfigError(source, f"'{wandb}' must be `embedded` or an address", hint)


def check_address(url: str, source: str, hint: str) -> None:
    """Refuse an invalid address, and one that contains a login, which messages would reveal.

    Raises ConfigError.
    """
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname and parts.hostname.encode("idna")) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or not url.isprintable():
        raise ConfigError(source, f"{url!r} is not an address", hint)
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            source, "an address must not contain a login", "wandb login --host ADDRESS"
        )


def _choose_server(
    flags: Flags, document: Document | None, values: Mapping[str, Any], credentials: Credentials
) -> tuple[str, str, bool]:
    if flags.wandb:
        source = place_of_flag("--wandb", flags.wandb, credentials.environment)
        return normalise_server(flags.wandb, source), source, True
    if named := values.get("wandb"):
        source = place_of_key(document, "wandb")
        return normalise_server(named, source), source, False
    if found := credentials.base_url():
        return normalise_server(*found), found[1], False
    return EMBEDDED, DEFAULT, False


def _read_settings(flags: Flags, document: Document | None) -> Settings | None:
    """Read deployer.yaml; flags that name a cluster override it."""
    if document is None and not flags.cluster:
        return None
    from deployer.config.check import change  # pydantic takes 50 ms: only with a file or a cluster
    from deployer.config.settings import check_settings

    settings = check_settings(document or parse_document("", FILE_NAME))
    section = settings.kubernetes
    for name, value in (flags.cluster or {}).items():
        if not value:
            raise ConfigError(f"--{name}", "is empty", "name one, or remove it")
        try:
            section = change(section, FILE_NAME, **{name: value})
        except ConfigError as error:
            raise ConfigError(f"--{name}", error.findings[0].message, error.hint) from error
    return replace(settings, kubernetes=section)


def _find_key(wandb: str, credentials: Credentials) -> tuple[str, str]:
    return (None if wandb == EMBEDDED else credentials.key(wandb)) or ("", "")


def _choose_executor(
    flag: tuple[str, str] | None, document: Document | None, known: Collection[str], of_file: str
) -> str:
    name, place = flag or (of_file, place_of_key(document, "on"))
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean `{near[0]}`?" if near else f"one of: {', '.join(known)}"
        raise ConfigError(place, f"'{name}' is not an executor", hint)
    return name
