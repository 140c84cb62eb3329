"""`deployer plan`: the exact manifests that `up` would send, before the sweep exists."""

from __future__ import annotations

import time
from collections.abc import Mapping

from deployer.agent.addresses import find_forge
from deployer.cli.output.render import is_terminal, say, warn
from deployer.cli.shell.call import App, Call, CommandWithYaml
from deployer.cli.shell.options import (
    FileArgument,
    MaxTimeOption,
    NoCheckOption,
    OneRunOption,
    ReplicasOption,
    RunCapOption,
)
from deployer.executors.base import Executor
from deployer.executors.plan import build_plan, find_end
from deployer.executors.registry import find_executor
from deployer.launch.check import check_program_here, describe_runs
from deployer.launch.pipeline import resolve_project_code
from deployer.launch.planning import build_draft, build_environment, choose_bound, choose_pace
from deployer.launch.request import SweepRequest
from deployer.launch.scaling import count_agents
from deployer.launch.script import check_script_first
from deployer.sweeps.sweep_file import load_sweep
from deployer.text import format_bytes

SWEEP_PATH = "ENTITY/PROJECT/SWEEP_ID"  # W&B assigns the id on creation

app = App()


@app.command(cls=CommandWithYaml)
def plan(
    call: Call,
    file: FileArgument,
    replicas: ReplicasOption = None,
    run_cap: RunCapOption = None,
    one_run_per_job: OneRunOption = False,
    max_time: MaxTimeOption = None,
    no_check: NoCheckOption = False,
) -> None:
    """Print the manifests that `up` would send, in that order.

    Contacts only the registry of `image:` and the repository of `code:`, so ENTITY/PROJECT/SWEEP_ID
    is a placeholder for the sweep. The manifests contain no keys. An embedded backend in the
    cluster comes first; `up` does not change an existing one.
    Send them with `kubectl apply --server-side -f -`, or with `kubectl create` if Jobs have a
    generateName.
    """
    config = resolve_project_code(call.read(replicas=replicas))
    read = load_sweep(file, run_cap)
    for warning in read.warnings:
        warn(warning)
    executor = find_executor(config)
    url = executor.embedded_url
    described = describe_runs(executor, build_draft(config, url, config.embedded))
    for warning in described.warnings:
        warn(warning)
    request = SweepRequest(file, read, check_script=not no_check)
    check_program_here(executor, request.started, config.code, str(file))
    check_script_first(executor, request)
    documents = _build_documents(executor, read.expected, one_run_per_job, max_time)
    if not (config.embedded or find_forge(config.wandb)):
        said = "is not contacted; if it is an embedded backend, each agent gets its own key"
        say(f"{config.wandb} {said}")
    for line in described.lines:
        say(line)
    if call.output == "yaml" and is_terminal():
        documents = [leave_out_archives(one) for one in documents]
    call.emit(documents)


def leave_out_archives(document: object) -> object:
    """Return a manifest for people: sizes replace its binary data."""
    if not isinstance(document, Mapping) or "binaryData" not in document:
        return document
    sizes = {
        name: f"({format_bytes(len(text) * 3 // 4)}; whole in a pipe or a file)"
        for name, text in document["binaryData"].items()
    }
    return {**document, "binaryData": sizes}


def _build_documents(
    executor: Executor, expected: int | None, one_run: bool, max_seconds: float | None
) -> list[object]:
    """Return the documents that `up` would send; for local agents, only the plan itself."""
    config = executor.project
    bound = choose_bound(config, executor, True)
    count = count_agents(expected, bound) if one_run else config.replicas
    deadline = find_end(max_seconds, now := time.time())
    pace = choose_pace(config, config.embedded)
    planned = build_plan(
        SWEEP_PATH,
        executor.embedded_url if config.embedded else config.wandb,
        str(config.code.folder),
        count,
        environment=(*build_environment(one_run, deadline, pace), *config.code.variables),
        own_keys=config.embedded,
        deadline=deadline,
    )
    return list(executor.preview(planned, now=now))
