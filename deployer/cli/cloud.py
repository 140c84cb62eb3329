"""What `up` and `down` do about a GKE cluster: say its price, make it, take it down.

Places that are simply there need none of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deployer.cli.output.render import say
from deployer.cli.wait_messages import tell_who_lasts
from deployer.config.settings import Config
from deployer.errors import CloudError, ConfigError, KubeError, SweepFailed
from deployer.executors.base import Executor
from deployer.executors.registry import open_executor
from deployer.launch.agents import end_agents
from deployer.wandb_api.model import SweepPath

if TYPE_CHECKING:
    from deployer.gke.api.client import Gke
    from deployer.gke.pricing.estimate import Estimate
    from deployer.gke.removal.inventory import Inventory
    from deployer.gke.specification.spec import ClusterSpec


@dataclass(frozen=True)
class Limits:
    """What the user will pay and wait for: agents and their hours, and time until there is room."""

    max_seconds: float | None = None
    wait_for_capacity_seconds: float | None = None
    one_run: bool = False


def prepare_executor(config: Config, limits: Limits) -> Executor:
    """Open the place, with what agents need in it: their image, and on GKE the cluster.

    The cluster's price is said before it is made. Raises ConfigError, CloudError, ImageError.
    """
    if config.on != "local":
        _push_image(config.folder)
    if config.on == "gke":
        _prepare_cluster(config, limits)
    return open_executor(config.on)


def _push_image(folder: Path) -> None:
    """Build and push the image of the section `image:`, unless the registry has it."""
    from deployer.config.image_section import load_image_config
    from deployer.config.kubernetes_section import load_cluster
    from deployer.images.image import push_image

    settings = load_image_config(folder)
    if settings.repository and not load_cluster(folder).image:
        push_image(settings, folder, os.environ, say)


def _prepare_cluster(config: Config, limits: Limits) -> None:
    from deployer.executors.kubernetes.gpu_drivers.installation import install_drivers
    from deployer.executors.kubernetes.gpu_drivers.manifests import SYSTEM
    from deployer.gke.api.client import open_gke
    from deployer.gke.cluster.access import open_kube_of
    from deployer.gke.cluster.creation import ensure_cluster
    from deployer.gke.pricing.estimate import load_prices
    from deployer.gke.pricing.sentences import describe_estimate, describe_fallback
    from deployer.gke.specification.spec import load_spec

    spec = load_spec(config.gke, config.folder)
    # With an agent for each run and no bound, the most that the specification allows.
    agents = None if limits.one_run and config.given_replicas is None else config.replicas
    hours = limits.max_seconds / 3600 if limits.max_seconds else None
    for line in describe_estimate(_estimate(config, agents), hours):
        say(line)
    gke = open_gke(spec.project, os.environ)
    patience = limits.wait_for_capacity_seconds or 0.0
    with going_on_alone():
        cluster = ensure_cluster(gke, spec, wait_seconds=patience, tell=say)
    place, pools, prices = cluster.location, cluster.pool_names, load_prices(config.folder)
    for line in describe_fallback(spec, place, pools, prices, agents, hours):
        say(line)
    if any(choice.driver_version == "disabled" for choice in spec.gpus):
        # Ahead of the first node: the pool is empty until agents ask for it.
        install_drivers(open_kube_of(gke, cluster, SYSTEM), ["cos"], say)


def take_down_cluster(
    config: Config, path: SweepPath | None, *, everything: bool, delete_data: bool = False
) -> None:
    """End the agents in a GKE cluster, then delete it and all that came with it.

    Refuses while agents of other sweeps than `path` work there, unless `everything` is meant, and
    while the embedded backend's data is on one of its disks, unless `delete_data`.
    Raises ConfigError, CloudError.
    """
    from deployer.gke.api.client import open_gke
    from deployer.gke.specification.spec import load_spec

    try:
        executor = open_executor("gke")
        if not delete_data:
            _check_data(executor)
        _end_all_agents(executor, path, everything=everything)
    except CloudError as error:
        say(error.message)  # what is left of it is deleted all the same
    except KubeError as error:
        if not error.passing:
            raise
        say(f"its agents end with the cluster: {error.message}")
    spec = load_spec(config.gke, config.folder)
    remove_with_proof(open_gke(spec.project, os.environ), spec)


def remove_with_proof(gke: Gke, spec: ClusterSpec) -> Inventory:
    """Delete a cluster and all that came with it; say that a list of what is left is empty.

    Raises CloudError naming what stays.
    """
    from deployer.gke.removal.teardown import remove_cluster

    with going_on_alone():
        left = remove_cluster(gke, spec, say)
    say(f"nothing of ours is left of {spec.name}: no cluster, no disk, no load balancer")
    return left


@contextmanager
def going_on_alone() -> Iterator[None]:
    """Say at Ctrl-C that Google goes on with what was begun, and how to come back."""
    try:
        yield
    except KeyboardInterrupt:
        say(
            "\ninterrupted; Google goes on with what was begun: "
            "deployer gke up continues, deployer gke down removes it"
        )
        raise


def _check_data(executor: Executor) -> None:
    """Refuse to delete a disk with all results on it; raises ConfigError."""
    from deployer.executors.kubernetes.backend.removal import find_data
    from deployer.executors.kubernetes.executor import KubernetesExecutor

    assert isinstance(executor, KubernetesExecutor)
    if claim := find_data(executor.kube):
        raise ConfigError(
            "--cluster",
            f"all sweeps of the embedded backend would go with its disk ({claim})",
            "deployer backend copy --on gke, then "
            "deployer down --all --cluster --delete-data --on gke",
        )


def _end_all_agents(executor: Executor, path: SweepPath | None, *, everything: bool) -> None:
    working = {agent.sweep_path for agent in executor.list_agents() if agent.alive}
    others = sorted(working - {str(path)})
    if others and not everything:
        said = f"agents of {', '.join(others)} are at work in the cluster"
        raise ConfigError("--cluster", said, "deployer down --all --cluster ends them, too")
    with tell_who_lasts(executor, None):
        end_agents(executor, None)


def find_hourly_price(config: Config, executor: Executor, path: SweepPath) -> float | None:
    """Return the dollars an hour of a sweep's agents; None where nobody is billed or knows it."""
    if config.on != "gke":
        return None
    alive = sum(agent.alive for agent in executor.list_agents(str(path)))
    return _estimate(config, alive, executor).usd_per_hour


@contextmanager
def closing(config: Config, executor: Executor, path: SweepPath, take_down: bool) -> Iterator[None]:
    """Once results have been read, good or bad, take down what was made for them if that is wanted.

    Else, and if it does not come to that, say what a cluster goes on costing.
    """
    failure = None
    try:
        yield
    except SweepFailed as error:
        failure = error
    except BaseException:
        _say_what_goes_on(config, executor)
        raise
    if take_down:
        _take_down(config, executor, path)
    else:
        _say_what_goes_on(config, executor)
    if failure:
        raise failure


def _take_down(config: Config, executor: Executor, path: SweepPath) -> None:
    if config.on == "gke":
        take_down_cluster(config, path, everything=False)
        return
    end_agents(executor, str(path))
    say(f"{path}: what was made for its agents is deleted; results stay")


def _say_what_goes_on(config: Config, executor: Executor) -> None:
    if config.on != "gke":
        return
    from deployer.gke.pricing.sentences import format_usd

    usd = _estimate(config, 0, executor).idle_usd_per_hour
    cost = f"costs {format_usd(usd)} an hour" if usd is not None else "goes on costing"
    say(f"the cluster without agents {cost}: deployer down --cluster")


def _estimate(config: Config, agents: int | None, executor: Executor | None = None) -> Estimate:
    """Return the price where the cluster is, or where it is wanted most."""
    from deployer.executors.gke.executor import GkeExecutor
    from deployer.gke.pricing.estimate import estimate, estimate_pools, load_prices
    from deployer.gke.specification.spec import load_spec

    spec, prices = load_spec(config.gke, config.folder), load_prices(config.folder)
    if isinstance(executor, GkeExecutor):
        return estimate_pools(spec, executor.location, prices, executor.pools, agents)
    return estimate(spec, spec.locations[0], prices, agents)
