"""Programs that start a Python script, and which of their flags take a word of their own; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deployer.scripts.unseen import Unseen

# What torchrun sets for the first process of one.
ONE_PROCESS = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "GROUP_RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}
# Of `torchrun --help` and `accelerate launch --help`, written with hyphens.
TORCHRUN_PLAIN = ("standalone", "use-env", "no-python", "run-path")
TORCHRUN_VALUES = (
    *("nnodes", "nproc-per-node", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf"),
    *("max-restarts", "monitor-interval", "start-method", "role", "log-dir", "redirects", "tee"),
    *("local-ranks-filter", "node-rank", "master-addr", "master-port", "local-addr", "logs-specs"),
)
ACCELERATE_PLAIN = (
    *("cpu", "multi-gpu", "tpu", "ipex", "use-xpu", "quiet", "debug", "no-python", "same-network"),
    *("use-deepspeed", "use-fsdp", "use-megatron-lm", "enable-cpu-affinity"),
)
ACCELERATE_VALUES = (
    *(
        "config-file",
        "mixed-precision",
        "num-processes",
        "num-machines",
        "num-cpu-threads-per-process",
    ),
    *("machine-rank", "main-process-ip", "main-process-port", "gpu-ids", "dynamo-backend"),
    *("main-training-function", "rdzv-backend", "rdzv-conf", "gradient-accumulation-steps"),
)


@dataclass(frozen=True)
class Launcher:
    """A program that starts a script, once or several times, with what follows it."""

    command: tuple[str, ...]
    modules: tuple[str, ...]
    plain: tuple[str, ...]
    values: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)

    def is_command(self, words: Sequence[str]) -> bool:
        """Tell whether words begin with this program."""
        named = (Path(words[0]).name, *words[1 : len(self.command)])
        return named == self.command

    def skip_flags(self, words: list[str]) -> tuple[bool, list[str]]:
        """Return whether a module is meant, and the words from script or module on."""
        module = False
        while words and words[0].startswith("-"):
            name, equals, _ = words[0].lstrip("-").replace("_", "-").partition("=")
            if words[0] in ("-m", "--module"):
                module, words = True, words[1:]
            elif name == "no-python" or not (equals or name in (*self.plain, *self.values)):
                raise Unseen(f"{self.command[0]} {words[0]}: what it starts cannot be seen")
            else:
                words = words[1:] if equals or name in self.plain else words[2:]
        return module, words


@dataclass(frozen=True)
class Prefix:
    """A program that runs the command behind it in an environment of its own."""

    command: tuple[str, ...]
    plain: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    def skip(self, words: Sequence[str]) -> list[str] | None:
        """Return the command behind it; None where it is another program. Raises Unseen."""
        count = len(self.command)
        if (Path(words[0]).name, *words[1:count]) != self.command:
            return None
        rest = list(words[count:])
        while rest and rest[0].startswith("-") and rest[0] != "--":
            name = rest[0].partition("=")[0]
            if name not in (*self.plain, *self.values):
                shown = " ".join((*self.command, rest[0]))
                raise Unseen(f"{shown}: what it starts cannot be seen")
            rest = rest[2:] if name in self.values and "=" not in rest[0] else rest[1:]
        return rest[1:] if rest[:1] == ["--"] else rest


CONDA = (("--no-capture-output", "--live-stream"), ("-n", "--name", "-p", "--prefix", "--cwd"))
PREFIXES = (
    Prefix(
        ("uv", "run"),
        (
            "--frozen",
            "--locked",
            "--no-sync",
            "--offline",
            "--all-extras",
            "--no-dev",
            "-q",
            "--quiet",
        ),
        ("--extra", "--group", "--with", "--python", "-p", "--project", "--package", "--env-file"),
    ),
    *(Prefix((name, "run"), *CONDA) for name in ("conda", "mamba", "micromamba")),
    Prefix(("poetry", "run")),
    Prefix(("pipenv", "run")),
    Prefix(("nohup",)),
    Prefix(("nice",), (), ("-n",)),
)
LAUNCHERS = (
    Launcher(
        ("torchrun",),
        ("torch.distributed.run", "torch.distributed.launch"),
        TORCHRUN_PLAIN,
        TORCHRUN_VALUES,
        ONE_PROCESS,
    ),
    Launcher(
        ("accelerate", "launch"),
        ("accelerate.commands.launch",),
        ACCELERATE_PLAIN,
        ACCELERATE_VALUES,
    ),
)
