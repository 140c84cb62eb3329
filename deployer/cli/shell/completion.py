"""What a shell offers behind a command: sweeps and agents of this machine's folders.

Asks no server and no cluster, so that a Tab is answered at once.
"""

from __future__ import annotations


def complete_sweeps(incomplete: str) -> list[str]:
    """Return the paths of sweeps made from this machine, the newest first."""
    from deployer.sweeps.records import Records

    paths = dict.fromkeys(record.sweep_path for record in Records.load() if record.sweep_path)
    short = [path.rsplit("/", 1)[1] for path in paths]
    return [one for one in (*paths, *short) if incomplete and one.startswith(incomplete)] or [
        path for path in paths if path.startswith(incomplete)
    ]


def complete_agents(incomplete: str) -> list[str]:
    """Return the names of this machine's agents."""
    from deployer.config.paths import agents_folder
    from deployer.executors.local.agent_folder import load_folders

    names = [folder.spec.name for folder in load_folders(agents_folder())]
    return [name for name in names if name.startswith(incomplete)]


def complete_executors(incomplete: str) -> list[str]:
    """Return the names of executors."""
    from deployer.executors.registry import list_names

    return [name for name in list_names() if name.startswith(incomplete)]
