"""`deployer plan`: the very manifests that `up` sends, before there is a sweep."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deployer.cli.command_group import make_app
from deployer.cli.options import (
    Documents,
    DocumentsOption,
    FileArgument,
    MaxTimeOption,
    OneRunOption,
    OnOption,
    ReplicasOption,
    RunCapOption,
    WandbOption,
    choose_bound,
    pick_sweep,
    read_config,
)
from deployer.cli.output.render import say, show_json, show_yaml
from deployer.config.settings import Config, Flags
from deployer.errors import ImageError
from deployer.executors.deadline import build_environment, count_job_seconds, find_end
from deployer.executors.plan import build_plan
from deployer.executors.registry import open_executor
from deployer.launch.agents import plan_agents, warn_about_code
from deployer.launch.one_run_per_job import ENVIRONMENT, count_agents
from deployer.launch.resolution import open_sweep
from deployer.sweeps.sweep_file import load_sweep
from deployer.wandb_api.operations import get_sweep

if TYPE_CHECKING:
    from deployer.config.kubernetes_section import ClusterConfig
    from deployer.executors.kubernetes.manifests.fields import Manifest

SWEEP_PATH = "ENTITY/PROJECT/SWEEP_ID"  # W&B names a sweep when it makes it
EMBEDDED_URL = "http://EMBEDDED"
NAMESPACE = "NAMESPACE"  # of the kubeconfig, which is not read
A_NEW_KEY = "what the server makes for each agent"

app = make_app()


@app.command()
def plan(
    file: FileArgument,
    sweep: Annotated[
        str | None,
        typer.Argument(metavar="SWEEP", help="Of this sweep, as server and cluster are now."),
    ] = None,
    replicas: ReplicasOption = None,
    run_cap: RunCapOption = None,
    one_run_per_job: OneRunOption = False,
    max_time: MaxTimeOption = None,
    on: OnOption = None,
    wandb: WandbOption = None,
    output: DocumentsOption = Documents.YAML,
) -> None:
    """Print the manifests that `up` would send, in the order in which it sends them.

    Contacts nothing but the registry of `image:`, so ENTITY/PROJECT/SWEEP_ID stands for the sweep;
    with a SWEEP, reads what is there. No key is in them. An embedded backend in the cluster
    comes first; `up` leaves one that is there as it is. Send them with `kubectl apply
    --server-side -f -`, or `kubectl create` where the server names Jobs.
    """
    config = read_config(Flags(wandb=wandb, replicas=replicas, on=on))
    read = load_sweep(file, run_cap)
    for warning in (*read.warnings, warn_about_code(config.on, config.folder)):
        if warning:
            say(f"warning: {warning}")
    if sweep:
        documents = _plan_sweep(sweep, config, one_run_per_job, max_time)
    else:
        documents = _plan_file(config, read.expected, one_run_per_job, max_time)
    if output == "json":
        show_json(documents)
    else:
        show_yaml(documents)


def _plan_sweep(
    sweep: str, config: Config, one_run: bool, max_seconds: float | None
) -> list[object]:
    """Return what `agents up` would send now for a sweep that is there."""
    server, path = open_sweep(pick_sweep(sweep, config))
    get_sweep(server.client, path)  # raises if there is none
    executor = open_executor(config.on)
    bound = choose_bound(config, one_run)
    deadline = find_end(max_seconds, time.time())
    planned = plan_agents(
        server, executor, path, bound, config.folder, one_run=one_run, deadline=deadline
    )
    if config.on == "local":
        return [planned]
    from deployer.executors.kubernetes.executor import KubernetesExecutor

    assert isinstance(executor, KubernetesExecutor)
    alive = {agent.name for agent in executor.list_agents(str(path)) if agent.alive}
    key = A_NEW_KEY if server.extended else server.client.key
    keys = {agent.name: key for agent in planned.agents if agent.name not in alive}
    return list(executor.build_manifests(planned, keys)) if keys else []


def _plan_file(
    config: Config, expected: int | None, one_run: bool, max_seconds: float | None
) -> list[object]:
    """Return manifests for a cluster; on this machine, the plan itself is all there is."""
    count = count_agents(expected, choose_bound(config, True)) if one_run else config.replicas
    deadline = find_end(max_seconds, now := time.time())
    environment = (*(ENVIRONMENT if one_run else ()), *build_environment(deadline))
    planned = build_plan(
        SWEEP_PATH,
        _name_server(config),
        str(config.folder),
        count,
        environment=environment,
        own_keys=config.embedded,
        deadline=deadline,
    )
    if config.on == "local":
        return [planned]
    from deployer.config.kubernetes_section import load_cluster
    from deployer.executors.kubernetes.agent_keys import name_keys
    from deployer.executors.kubernetes.manifests.build import build_manifests
    from deployer.executors.kubernetes.manifests.inputs import load_inputs

    secret, keys = name_keys(planned, [agent.name for agent in planned.agents])
    cluster = _choose_image(load_cluster(config.folder), config.folder)
    inputs = load_inputs(cluster, config.folder)
    agents = build_manifests(
        planned,
        cluster,
        inputs.templates,
        secret_name=secret,
        secret_keys=keys,
        supervisor=inputs.supervisor,
        code=inputs.code,
        max_seconds=count_job_seconds(deadline, now),
    )
    return [*(_plan_backend(config, cluster) if config.embedded else ()), *agents]


def _name_server(config: Config) -> str:
    """Return the server's address as agents get it, as far as it is known before it is there."""
    if not config.embedded or config.on == "local":
        return EMBEDDED_URL if config.embedded else config.wandb
    from deployer.config.kubernetes_section import load_cluster
    from deployer.executors.kubernetes.backend.manifests import NAME, build_url

    return build_url(NAME, load_cluster(config.folder).namespace or NAMESPACE)


def _plan_backend(config: Config, cluster: ClusterConfig) -> Sequence[Manifest]:
    """Return what makes the embedded backend in the cluster."""
    from deployer.config.backend_section import load_backend_config
    from deployer.executors.kubernetes.backend.manifests import (
        build_backend,
        load_backend_templates,
    )

    return build_backend(load_backend_templates(), load_backend_config(config.folder), cluster)


def _choose_image(cluster: ClusterConfig, folder: Path) -> ClusterConfig:
    """Name the image that `up` would push, by its digest if the registry has it already."""
    from deployer.config.image_section import load_image_config
    from deployer.images.context import read_inputs
    from deployer.images.image import find_pushed

    settings = load_image_config(folder)
    if cluster.image or not settings.repository:
        return cluster
    why = "it is not pushed yet"
    try:
        image = find_pushed(settings, folder, os.environ)
    except ImageError as error:
        image, why = None, error.message
    if image is None:
        image = f"{settings.repository}:{read_inputs(settings, folder).tag}"
        say(f"warning: {image} is named without its digest: {why}; deployer image push")
    return replace(cluster, image=image)
