"""An example or two of every command, shown at the end of its help."""

from __future__ import annotations

from typing import Any

Words = tuple[str, ...]
# Commands as they are typed; a test reads each of them as the command line would.
EXAMPLES: dict[Words, tuple[str, ...]] = {
    ("init",): ("init train.py", "init --from me/digits/ab12cd34 --yes"),
    ("up",): (
        "up sweep.yaml --replicas 2",
        "up sweep.yaml --on kubernetes --replicas 8",
    ),
    ("run",): (
        "run -- python train.py --lr 0.1",
        "run --on kubernetes --detach -- torchrun train.py --epochs 90",
    ),
    ("plan",): ("plan sweep.yaml --on kubernetes --replicas 4",),
    ("doctor",): ("doctor", "doctor sweep.yaml --on kubernetes"),
    ("watch",): ("watch", "watch me/digits/ab12cd34 --plain"),
    ("results",): ("results", "results ab12cd34 -o csv"),
    ("results", "get"): ("results get --best", "results get --to s3://bucket/models"),
    ("importance",): ("importance", "importance ab12cd34 --metric val_loss -o json"),
    ("report",): ("report --to report.html", "report ab12cd34 --to report.md"),
    ("heal",): ("heal", "heal ab12cd34 --replicas 2"),
    ("down",): ("down", "down --all"),
    ("sweep", "check"): ("sweep check sweep.yaml", "sweep check --strict a.yaml b.yaml"),
    ("sweep", "import"): ("sweep import sets.csv --metric loss --to sweep.yaml",),
    ("sweep", "export"): ("sweep export sweep.yaml --to sets.csv",),
    ("sweep", "create"): ("sweep create sweep.yaml --run-cap 20",),
    ("sweep", "list"): ("sweep list", "sweep list --project digits -o json"),
    ("sweep", "show"): ("sweep show ab12cd34",),
    ("sweep", "pause"): ("sweep pause",),
    ("sweep", "resume"): ("sweep resume",),
    ("sweep", "stop"): ("sweep stop ab12cd34",),
    ("sweep", "cancel"): ("sweep cancel ab12cd34",),
    ("sweep", "delete"): ("sweep delete me/digits/ab12cd34 --yes",),
    ("agents", "up"): ("agents up --replicas 4",),
    ("agents", "list"): ("agents list",),
    ("agents", "scale"): ("agents scale 2",),
    ("agents", "drain"): ("agents drain --agent ab12cd34-a1",),
    ("agents", "logs"): ("agents logs -f", "agents logs ab12cd34 --agent ab12cd34-a1"),
    ("agents", "down"): ("agents down",),
    ("data", "put"): (
        "data put ./mnist mnist",
        "data put s3://bucket/mnist.tar.gz mnist --on kubernetes",
    ),
    ("data", "get"): ("data get mnist --to ./mnist",),
    ("data", "preload"): ("data preload --on kubernetes",),
    ("data", "list"): ("data list",),
    ("data", "delete"): ("data delete mnist",),
    ("secret", "set"): ("secret set", "secret set --namespace research --key-stdin"),
    ("secret", "show"): ("secret show",),
    ("secret", "delete"): ("secret delete",),
    ("rights",): ("rights agents --user ann",),
    ("drivers", "status"): ("drivers status",),
    ("drivers", "install"): (
        "drivers install",
        "drivers install --device-plugin --node-selector gpu=yes",
    ),
    ("drivers", "remove"): ("drivers remove",),
    ("image", "push"): ("image push", "image push --rebuild"),
    ("image", "save"): ("image save image.tar",),
    ("image", "load"): ("image load image.tar",),
    ("gke", "plan"): ("gke plan", "gke plan l4-spot -o json"),
    ("gke", "up"): ("gke up", "gke up l4-spot --wait-for-capacity 2h"),
    ("gke", "down"): ("gke down",),
    ("gke", "list"): ("gke list",),
    ("orphans",): ("orphans", "orphans --project my-project --min-age 1d --yes"),
    ("backend", "serve"): ("backend serve --port 8080",),
    ("backend", "up"): ("backend up",),
    ("backend", "status"): ("backend status",),
    ("backend", "down"): ("backend down",),
    ("backend", "env"): ("backend env",),
    ("backend", "open"): ("backend open", "backend open --on kubernetes"),
    ("backend", "copy"): ("backend copy --on kubernetes --data ./backend",),
    ("backend", "user", "add"): (
        "backend user add ann --label laptop",
        "backend user add ann --key-stdin",
    ),
    ("backend", "user", "list"): ("backend user list",),
    ("backend", "user", "remove"): (
        "backend user remove ann",
        "backend user remove ann 1f0c9a3e",
    ),
}


def add_examples(command: Any, words: Words) -> None:
    """Put the examples of a command, and of those below it, at the end of their help."""
    if shown := EXAMPLES.get(words):
        lines = "\n".join(f"  deployer {example}" for example in shown)
        command.epilog = f"\b\nExamples:\n{lines}"
    for name, one in getattr(command, "commands", {}).items():
        add_examples(one, (*words, name))
