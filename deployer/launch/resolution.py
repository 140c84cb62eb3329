"""Finds the sweep and the W&B server of a command; starts the server if it is ours."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from deployer.agent.addresses import CLOUD_PAGES_URL, build_pages_url, is_same, split_page
from deployer.config.paths import backend_folder
from deployer.config.project import EMBEDDED, Project, check_address
from deployer.errors import BackendError, BackendStopped, ConfigError, WandbError
from deployer.executors.base import BackendHost, Executor
from deployer.executors.registry import find_executor, list_names
from deployer.model import SweepPath
from deployer.sweeps.records import Records, SweepRecord
from deployer.wandb_api.client import Client, is_loopback
from deployer.wandb_api.operations import get_sweep, get_viewer, list_projects
from deployer.wandb_api.server import Inside, Server

LOG = logging.getLogger(__name__)
NUMBERED = re.compile(r"-(a?)\d+$")  # c5u5peps-a1 is an agent, c5u5peps-1 a run
FILE_ENDINGS = (".yaml", ".yml")


def connect(project: Project, executor: Executor | None = None, *, reading: bool = False) -> Server:
    """Start the embedded backend if it is selected, and check the key.

    If agents work in a cluster, the backend is in it; slow steps there are logged. `executor` is
    that of the agents, if the caller has it: its client is reused. With `reading`, a stopped
    backend is not started: BackendStopped. Raises ConfigError without a key, BackendError,
    WandbError, KubeError or CloudError.
    """
    project.check_login()
    if not project.embedded and not _is_own_backend(project):
        client = Client(project.wandb, project.require_key(), project.key_source)
        pages_url = project.environment.get("WANDB_APP_URL", "")
        return Server(client, get_viewer(client), embedded=False, pages_url=pages_url)
    if found := find_host(project, executor):
        return _connect_inside(*found, reading=reading)
    from deployer.backend.data_folder import is_served, read_key
    from deployer.backend.server.daemon import revive_backend, start_backend

    if project.known_data and not project.known_data.is_dir():
        said = f"the copy of its backend was not found: {project.known_data}"
        raise BackendError(said, "restore the folder from your own backup")
    if reading and not project.known_data and not is_served(backend_folder()):
        raise BackendStopped("the embedded backend is stopped", "deployer backend up")
    backend = start_backend(project.known_data or backend_folder())
    if not reading and (trouble := backend.describe_trouble()):
        LOG.warning(f"{trouble.message} ({trouble.hint})")
    key_file = f"{backend.data} (deployer backend)"
    client = Client(backend.url, read_key(backend.data), key_file, near=True)
    return Server(
        client,
        get_viewer(client),
        embedded=True,
        revive=lambda: revive_backend(backend.data),
    )


def find_host(
    project: Project, executor: Executor | None = None
) -> tuple[Executor, BackendHost] | None:
    """Return the location of the embedded backend; None if it is local, or W&B's is used."""
    if not project.embedded:
        return None
    if executor is None or executor.name != project.backend_on:
        executor = find_executor(project, project.backend_on)
    return (executor, executor.backend) if executor.backend else None


def _connect_inside(executor: Executor, host: BackendHost, *, reading: bool) -> Server:
    """Reach the backend in a cluster through a local port that lasts as long as this process."""
    hosted = host.open(make=not reading)
    client = Client(hosted.reached_at, hosted.key, hosted.key_source)
    inside = Inside(
        executor.name,
        hosted.url,
        hosted.pages_url,
        hosted.cluster,
        hosted.note_user,
        address=executor.address,
        named=executor.on,
    )
    return Server(client, get_viewer(client), embedded=True, inside=inside)


def _is_own_backend(project: Project) -> bool:
    """Return True if address and key in the environment are our own backend's.

    `eval "$(deployer backend env)"` sets them in W&B's variables.
    """
    own = embedded_url()
    if not own or not is_same(project.wandb, own):
        return False
    from deployer.backend.data_folder import read_key

    return project.require_key() == read_key(backend_folder())


def embedded_url() -> str | None:
    """Return the address of the user's embedded backend if it runs; starts nothing."""
    from deployer.backend.data_folder import is_served, read_url

    data = backend_folder()
    return read_url(data) if is_served(data) else None


@dataclass(frozen=True)
class Choice:
    """A sweep and the config for its server; omitted names are empty."""

    config: Project
    entity: str
    project: str
    sweep_id: str

    @property
    def complete(self) -> bool:
        """Return True if the path is known without contacting a server."""
        return bool(self.entity and self.project)

    def path(self, viewer_entity: str = "") -> SweepPath:
        """Return the full path; omitted parts are those of a new sweep."""
        return SweepPath(
            self.entity or self.config.entity_for(None, viewer_entity),
            self.project or self.config.project_for(None, None),
            self.sweep_id,
        )


def choose_sweep(text: str | None, config: Project, known_paths: Iterable[str] = ()) -> Choice:
    """Find the sweep that `text` names; `known_paths` are those of local agents.

    Contacts nothing. A sweep of ours is searched on the server where it was made, unless `--wandb`
    says otherwise. Raises ConfigError.
    """
    if text is None:
        return _newest(config)
    if text.startswith(("http://", "https://")):
        return _from_address(text, config)
    parts = text.strip("/").split("/")
    if not 1 <= len(parts) <= 3 or not all(parts):
        raise ConfigError("SWEEP", f"'{text}' is not a sweep", "write ENTITY/PROJECT/SWEEP_ID")
    records = Records.load()
    whole = _match(text, [r.sweep_path for r in records])
    if not whole and len(parts) < 3:  # a whole path does not need an agent that knows it
        whole = _match(text, known_paths)
    if not whole and text.endswith(FILE_ENDINGS):
        hint = f"deployer sweep list lists sweeps; deployer up {text} creates one"
        raise ConfigError("SWEEP", f"'{text}' is a sweep file, not a sweep", hint)
    entity, project, sweep_id = (whole.split("/") if whole else ["", "", *parts])[-3:]
    record = next(iter(records.of(whole)), None) if whole else None
    return Choice(_config_for(record, config), entity, project, sweep_id)


def resolve_executor(text: str | None, config: Project) -> Project:
    """Return the config for the location of the sweep's last agents. Contacts nothing."""
    try:
        choice = choose_sweep(text, config)
    except ConfigError:
        return config  # later steps report the error
    path = f"{choice.entity}/{choice.project}/{choice.sweep_id}"
    record = next(iter(Records.load().of(path)), None)
    return follow_agents_of(config, record) if record else config


def resolve_executors(config: Project) -> Project:
    """Return the config for all sweeps: the executor of the newest, the current context."""
    used = [one.on for one in Records.load().made_in(config.folder) if one.sweep_path]
    if config.explicit_on or not used or used[0] not in list_names():
        return config
    return replace(config, on=used[0])


def follow_agents_of(config: Project, record: SweepRecord) -> Project:
    """Return the config for the location of a sweep's last agents.

    A flag, the environment and `deployer.yaml` take precedence; for context and namespace, only a
    flag does.
    """
    if record.on not in list_names():
        return config
    placed = config if config.explicit_on else replace(config, on=record.on)
    return _go_to_cluster(placed, record) if placed.on == record.on else placed


def _go_to_cluster(config: Project, record: SweepRecord) -> Project:
    """Return the config for the context and namespace that flags named for a sweep's agents.

    Current flags take precedence, and another context has other namespaces. Raises ConfigError for
    a context that is gone.
    """
    named = config.named_cluster
    if not record.pinned or named.get("context", record.context) != record.context:
        return config
    if record.context and not named.get("context"):
        from deployer.kube.access import list_contexts  # the client of Kubernetes: 0.3 s

        if record.context not in list_contexts(config.environment):
            started = f"in which {record.sweep_path} was started"
            said = f"the kubeconfig has no context '{record.context}', {started}"
            raise ConfigError("--context", said, "name the current context of that cluster")
    return config.with_cluster(record.context, named.get("namespace", record.namespace))


def open_sweep(choice: Choice, *, reading: bool = False) -> tuple[Server, SweepPath]:
    """Connect to the sweep's server and return both; raises WandbError or BackendError.

    With `reading`, no backend is started.
    """
    server = connect(choice.config, reading=reading)
    path = choice.path(server.viewer.entity)
    if choice.complete:
        return server, path
    wandb = f" --wandb {choice.config.wandb}" if choice.config.explicit_wandb else ""
    return server, _find_anywhere(server, path, f"{choice.config.on_option}{wandb}")


def _find_anywhere(server: Server, path: SweepPath, options: str) -> SweepPath:
    """Search its entity's projects for a short id; raises WandbError if it is missing."""
    guessed = [path.project, *list_projects(server.client, path.entity)]
    for project in dict.fromkeys(guessed):
        found = SweepPath(path.entity, project, path.sweep_id)
        try:
            get_sweep(server.client, found)
        except WandbError as error:
            if error.status != 404:
                raise
        else:
            return found
    hint = f"deployer sweep list{options}"
    if numbered := NUMBERED.search(path.sweep_id):
        what, flag = ("an agent", "--agent") if numbered[1] else ("a run", "--run")
        hint += f"; for {what}: {flag} {path.sweep_id}"
    raise WandbError(
        f"{server.url}: no project of {path.entity} has a sweep {path.sweep_id}",
        hint,
        status=404,
    )


def _newest(config: Project) -> Choice:
    made = [r for r in Records.load().made_in(config.folder) if r.sweep_path]
    if config.explicit_wandb:
        made = [r for r in made if _is_on(r, config.wandb) and _fits(r, config)]
    if not made:
        raise ConfigError(
            "SWEEP",
            f"no sweep was created from {config.folder}",
            "name one as ENTITY/PROJECT/SWEEP_ID, or create one: deployer up FILE",
        )
    return Choice(_config_for(made[0], config), *made[0].sweep_path.split("/"))


def _from_address(text: str, config: Project) -> Choice:
    """Parse the URL of a sweep's page, such as `https://HOST/ENTITY/PROJECT/sweeps/SWEEP_ID`."""
    records = Records.load()
    pages = _list_pages(config, records)
    check_address(text, "SWEEP", "paste the address of its page")
    found = split_page(text, pages)
    if found is None:
        raise ConfigError(
            "SWEEP",
            f"'{text}' is not a sweep's address",
            f"it looks like {CLOUD_PAGES_URL}/ENTITY/PROJECT/sweeps/SWEEP_ID",
        )
    base_url, words = found
    is_known = any(is_same(base_url, url) for url, _ in pages)
    path = "/".join(words)
    away = (r for r in records.of(path) if r.backend_on or r.data)
    record = next(away, None)
    if record and is_loopback(base_url):  # a port that leads into a cluster
        config = _config_for(record, config)
    elif not config.explicit_wandb:
        own = embedded_url()
        known = EMBEDDED if own and is_same(base_url, own) else base_url
        config = config.for_server(known, "the sweep's address", named=is_known)
    return Choice(config, *words)


def _list_pages(config: Project, records: Records) -> list[tuple[str, str]]:
    """Return the known servers with the addresses of their pages; the server in use first."""
    named = [] if config.embedded else [config.wandb]
    known = [*named, *(one.server for one in records if one.server != EMBEDDED)]
    pages = [(url, build_pages_url(url)) for url in known]
    own = config.environment.get("WANDB_APP_URL")
    return [(url, own) for url in named if own] + pages


def _is_on(record: SweepRecord, server: str) -> bool:
    return any(is_same(server, one) for one in (record.server, record.base_url))


def _match(text: str, paths: Iterable[str]) -> str:
    wanted = text.strip("/")
    return next((p for p in paths if p == wanted or p.endswith(f"/{wanted}")), "")


def _fits(record: SweepRecord, config: Project) -> bool:
    return not (config.embedded and config.explicit_on) or _backend_on(record) == config.on


def _backend_on(record: SweepRecord) -> str:
    return record.backend_on or "local"


def _config_for(record: SweepRecord | None, config: Project) -> Project:
    if record is None:
        return config
    if not config.explicit_wandb:
        config = config.for_server(record.server, f"the server of {record.sweep_path}")
    else:
        moved = bool(record.data) or not config.explicit_on
        if not (config.embedded and record.server == EMBEDDED and moved):
            return config
    data = Path(record.data) if record.data else None
    config = replace(config, known_backend_on=_backend_on(record), known_data=data)
    if record.backend_on:
        config = _go_to_cluster(config, record)
    _check_namespace(record, config.named_cluster)
    return config


def _check_namespace(record: SweepRecord, named: Mapping[str, str]) -> None:
    """Reject a namespace that differs from the one of a sweep's backend; raises ConfigError."""
    here = named.get("context", record.context) == record.context
    other = named.get("namespace", record.namespace) != record.namespace
    if record.backend_on and record.namespace and here and other:
        said = f"{record.sweep_path} and its backend are in namespace {record.namespace}"
        raise ConfigError("--namespace", said, "leave it out")
