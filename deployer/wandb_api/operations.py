"""Requests to a W&B server about sweeps, runs and agents; their documents are in `queries`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from deployer.agent.addresses import build_pages_url
from deployer.errors import WandbError
from deployer.model import Run, Sweep, SweepPath
from deployer.wandb_api import queries
from deployer.wandb_api.client import Client
from deployer.wandb_api.model import (
    AgentInfo,
    LogPage,
    Snapshot,
    Viewer,
    parse_agent,
    parse_run,
    parse_runs,
    parse_sweep,
)

RUNS_PER_PAGE = 500
SWEEPS_PER_PAGE = 100
LINES_PER_PAGE = 1000
AGENT_KEYS = "deployerCreateAgentKey"
REQUEUE = "deployerRequeue"
DELETE_SWEEP = "deployerDeleteSweep"
RUN_TABLE = "deployerRuns"


def build_sweep_url(base_url: str, path: SweepPath, pages_url: str = "") -> str:
    """Return the URL of the sweep's web page; `pages_url` is the base from WANDB_APP_URL."""
    pages = pages_url.rstrip("/") or build_pages_url(base_url)
    return f"{pages}/{path.entity}/{path.project}/sweeps/{path.sweep_id}"


def get_viewer(client: Client) -> Viewer:
    """Return the key's owner; this also checks the key."""
    viewer = client.execute(queries.VIEWER).get("viewer")
    if not viewer:
        raise WandbError(
            f"{client.base_url}: the key is not valid",
            f"the key came from {client.key_source}; is it a key of {client.base_url}?",
            status=401,
        )
    return Viewer(name=str(viewer.get("username") or ""), entity=str(viewer.get("entity") or ""))


def create_sweep(
    client: Client,
    config: str,
    entity: str,
    project: str,
    mutation_id: str,
    description: str | None = None,
) -> tuple[SweepPath, tuple[str, ...]]:
    """Create a sweep from its YAML text; return its path and the server's warnings.

    The embedded backend makes only one sweep per `mutation_id`, so there the request is retried
    after a lost reply. Any other server would make a second sweep.
    """
    variables = {
        "config": config,
        "description": description,
        "entityName": entity,
        "projectName": project,
        "clientMutationId": mutation_id,
    }
    repeatable = AGENT_KEYS in client.mutations
    reply = client.execute(queries.CREATE_SWEEP, variables, repeatable)["upsertSweep"]
    sweep = reply["sweep"]
    home = sweep.get("project") or {}
    path = SweepPath(
        str((home.get("entity") or {}).get("name") or entity),
        str(home.get("name") or project),
        str(sweep["name"]),
    )
    return path, tuple(str(w) for w in reply.get("configValidationWarnings") or ())


def get_sweep(client: Client, path: SweepPath) -> Sweep:
    """Return one sweep; raises WandbError with status 404 if it does not exist."""
    return parse_sweep(_sweep_node(client, queries.GET_SWEEP, path, {}), path)


def get_creator(client: Client, path: SweepPath) -> str:
    """Return the name of a sweep's creator; empty if the server does not report it."""
    if "user" not in client.sweep_fields:
        return ""
    node = _sweep_node(client, queries.GET_CREATOR, path, {})
    return str((node.get("user") or {}).get("username") or "")


def get_snapshot(client: Client, path: SweepPath) -> Snapshot:
    """Return a sweep with all its runs and agents; one request for up to 500 runs."""
    read = _read_table if RUN_TABLE in client.sweep_fields else _read_pages
    node, runs = read(client, path)
    return Snapshot(
        sweep=parse_sweep(node, path),
        runs=tuple(runs),
        agents=tuple(parse_agent(n) for n in _nodes(node.get("agents") or {})),
    )


def _read_pages(client: Client, path: SweepPath) -> tuple[dict[str, Any], list[Run]]:
    known = _known_fields(client)
    query = queries.GET_SNAPSHOT % known
    node = _sweep_node(client, query, path, {"first": RUNS_PER_PAGE})
    runs = node.get("runs") or {}
    nodes = _nodes(runs)
    while cursor := _next_cursor(runs):
        page = {"first": RUNS_PER_PAGE, "cursor": cursor}
        runs = _sweep_node(client, queries.LIST_RUNS % known, path, page).get("runs") or {}
        nodes += _nodes(runs)
    return node, [parse_run(run) for run in nodes]


def _read_table(client: Client, path: SweepPath) -> tuple[dict[str, Any], list[Run]]:
    """Read all pages; parse each one while the next is being fetched."""
    node = _sweep_node(client, queries.GET_TABLE, path, {})
    table, runs = node[RUN_TABLE], []
    with ThreadPoolExecutor(max_workers=1) as ahead:
        while cursor := table["endCursor"]:
            asked = ahead.submit(_sweep_node, client, queries.NEXT_TABLE, path, {"cursor": cursor})
            runs += parse_runs(table["runs"])
            table = asked.result()[RUN_TABLE]
    return node, runs + parse_runs(table["runs"])


def _known_fields(client: Client) -> dict[str, str]:
    """Return the fields to request in addition to W&B's, as far as the server has them."""
    if REQUEUE not in client.mutations:
        return {"sweep": "", "run": ""}
    return {"sweep": queries.OUR_SWEEP_FIELDS, "run": queries.OUR_RUN_FIELDS}


def list_runs(client: Client, path: SweepPath) -> tuple[Run, ...]:
    return get_snapshot(client, path).runs


def list_agents(client: Client, path: SweepPath) -> tuple[AgentInfo, ...]:
    return get_snapshot(client, path).agents


def list_sweeps(client: Client, entity: str, project: str) -> tuple[Sweep, ...]:
    """Return a project's sweeps, newest first; empty if the project does not exist."""
    found: list[Sweep] = []
    variables: dict[str, Any] = {"entity": entity, "project": project, "perPage": SWEEPS_PER_PAGE}
    while True:
        home = client.execute(queries.LIST_SWEEPS, variables).get("project") or {}
        page = home.get("sweeps") or {}
        found += [parse_sweep(n, SweepPath(entity, project, n["name"])) for n in _nodes(page)]
        cursor = _next_cursor(page)
        if not cursor:
            return tuple(sorted(found, key=lambda s: s.created_at or 0.0, reverse=True))
        variables["cursor"] = cursor


def list_projects(client: Client, entity: str) -> tuple[str, ...]:
    found: list[str] = []
    variables: dict[str, Any] = {"entity": entity, "perPage": SWEEPS_PER_PAGE}
    while True:
        page = client.execute(queries.LIST_PROJECTS, variables).get("models") or {}
        found += [str(node["name"]) for node in _nodes(page)]
        cursor = _next_cursor(page)
        if not cursor:
            return tuple(found)
        variables["cursor"] = cursor


def set_sweep_state(client: Client, sweep: Sweep, state: str) -> None:
    """Set RUNNING, PAUSED, FINISHED (no new runs) or CANCELED (runs are killed too)."""
    client.execute(
        queries.SET_SWEEP_STATE,
        {
            "id": sweep.node_id,
            "state": state,
            "entityName": sweep.path.entity,
            "projectName": sweep.path.project,
        },
    )


def reopen_sweep(client: Client, sweep: Sweep, config: str) -> None:
    variables = {"entityName": sweep.path.entity, "projectName": sweep.path.project}
    variables |= {"id": sweep.node_id, "state": "RUNNING", "config": config}
    client.execute(queries.REOPEN_SWEEP, variables)


def delete_sweep(client: Client, path: SweepPath) -> None:
    """Delete a sweep and keep its runs; raises WandbError if the server does not support it."""
    if DELETE_SWEEP not in client.mutations:
        page = build_sweep_url(client.base_url, path)
        raise WandbError(f"{client.base_url} deletes sweeps only on their page", f"open {page}")
    client.execute(queries.DELETE_SWEEP, {"sweepPath": str(path)})


def requeue_sweep(
    client: Client, path: SweepPath, mutation_id: str, retries: int | None = None
) -> int:
    """Make the embedded backend assign failed and lost runs again; return their number.

    `retries` replaces the number of further attempts of a failed run.
    """
    variables = {"sweepPath": str(path), "id": mutation_id, "retries": retries}
    return int(client.execute(queries.REQUEUE, variables)[REQUEUE]["requeued"])


def stop_run(client: Client, run: Run) -> None:
    """Request a run's stop: the SDK interrupts its trainer at the next contact."""
    client.execute(queries.STOP_RUN, {"id": run.node_id})


def get_log_tail(client: Client, path: SweepPath, run_id: str, lines: int) -> tuple[str, ...]:
    """Return the last lines of a run's console; empty if the server does not have them."""
    variables = {"entity": path.entity, "project": path.project, "run": run_id, "last": lines}
    try:
        run = (client.execute(queries.LOG_TAIL, variables).get("project") or {}).get("run") or {}
    except WandbError:
        return ()
    return tuple(str(n.get("line") or "").rstrip() for n in _nodes(run.get("logLines") or {}))


def get_log_page(client: Client, path: SweepPath, run_id: str, after: str | None) -> LogPage:
    """Return the next lines of a run's console after a cursor, up to a thousand.

    Raises WandbError if the run does not exist.
    """
    variables = {"entity": path.entity, "project": path.project, "run": run_id}

    def ask(query: str, **more: Any) -> LogPage:
        run = (client.execute(query, {**variables, **more}).get("project") or {}).get("run")
        if not run:
            raise WandbError(
                f"run '{run_id}' not found in {path.entity}/{path.project}",
                f"deployer results {path}",
            )
        page = run.get("logLines") or {}
        return LogPage(
            run_state=str(run.get("state") or ""),
            lines=tuple(str(node.get("line") or "").rstrip() for node in _nodes(page)),
            total=int(run.get("logLineCount") or 0),
            cursor=(page.get("pageInfo") or {}).get("endCursor") or after,
        )

    try:
        return ask(queries.LOG_PAGE, first=LINES_PER_PAGE, after=after)
    except WandbError as error:
        if queries.PAGINATION not in error.message:
            raise
    # An older server: the cursor is the number of lines read, and the remaining ones are last.
    page = ask(queries.LOG_TAIL, last=1)
    new = page.total - int(after or 0)
    lines = ask(queries.LOG_TAIL, last=new).lines[:new] if new > 0 else ()
    return replace(page, lines=lines, cursor=str(page.total))


def create_agent_keys(
    client: Client, path: SweepPath, agent_names: tuple[str, ...], mutation_id: str
) -> dict[str, str]:
    """Return a key for each agent: its own if the server supports that, else the user's."""
    if AGENT_KEYS not in client.mutations:
        return dict.fromkeys(agent_names, client.key)
    keys = {}
    for name in agent_names:
        variables = {"sweepPath": str(path), "agentName": name, "id": f"{mutation_id}-{name}"}
        reply = client.execute(queries.CREATE_AGENT_KEY, variables)[AGENT_KEYS]
        keys[name] = str(reply["key"])
    return keys


def _sweep_node(
    client: Client, query: str, path: SweepPath, more: dict[str, Any]
) -> dict[str, Any]:
    variables = {"entity": path.entity, "project": path.project, "sweep": path.sweep_id, **more}
    node = (client.execute(query, variables).get("project") or {}).get("sweep")
    if not node:
        raise WandbError(
            f"{client.base_url}: sweep {path} not found", "deployer sweep list", status=404
        )
    return dict(node)


def _nodes(connection: dict[str, Any]) -> list[dict[str, Any]]:
    return [edge["node"] for edge in connection.get("edges") or () if edge and edge.get("node")]


def _next_cursor(connection: dict[str, Any]) -> str | None:
    page = connection.get("pageInfo") or {}
    return page.get("endCursor") if page.get("hasNextPage") else None
