"""Commands and flags that are gone, and what to do instead; each is kept for one release.

A key is the command line without `deployer`, up to the word that is gone: a command, a flag, or a
flag's value; `plan FILE SWEEP` ends with an argument. CHANGELOG.md has the same table.
"""

from __future__ import annotations

from collections.abc import Mapping

IN_IMAGE = (
    "`deployer plan FILE` prints the pod; `docker run IMAGE COMMAND` runs its image here, and "
    "`kubectl debug` looks into a pod"
)
DEVICE_PLUGIN = "install NVIDIA's device plugin with helm and `--set {}` (docs/clusters.md)"
SMOKE = "`deployer run --on kubernetes -- nvidia-smi` runs it in an agent's pod"
PAGE = (
    "`deployer report --to FILE.html` writes the page; `deployer backend open` shows the backend's"
)
WARM = "set `warm: false` in deployer.yaml"
BUILDER = "set `image: {builder: BUILDER}` in deployer.yaml"
VARIANT = "set `image: {variant: VARIANT}` in deployer.yaml"
REPOSITORY = "set `image: {repository: REGISTRY/NAME}` in deployer.yaml"

INSTEAD: Mapping[str, str] = {
    "agents up --cold": WARM,
    "backend user key": "`deployer backend user add NAME` adds a key of a user who is there, too",
    "backend user keys": "`deployer backend user list` lists the keys of all users",
    "backend user revoke": "`deployer backend user remove NAME KEY-ID`",
    "backend user rotate": "`deployer backend user add NAME`, then `deployer backend user remove "
    "NAME KEY-ID` with the id of the old key",
    "doctor --deep": "agents say what they cannot reach when they start; to ask from a pod, "
    "`kubectl run -it --rm --image=IMAGE NAME -- COMMAND`",
    "drivers install --mig-strategy": DEVICE_PLUGIN.format("migStrategy=STRATEGY"),
    "drivers install --runtime-class": DEVICE_PLUGIN.format("runtimeClassName=NAME"),
    "drivers install --timeout": "it waits ten minutes; `deployer drivers status` looks again",
    "drivers status --image": SMOKE,
    "drivers status --smoke": SMOKE,
    "drivers status --timeout": SMOKE,
    "gke credentials": "`gcloud container clusters get-credentials NAME --location LOCATION "
    "--project PROJECT`",
    "gke status": "`deployer gke list` shows the project's clusters, and their pools",
    "image build": "`deployer image push` builds and pushes, `deployer image save FILE` builds "
    "and writes a file",
    "image push --builder": BUILDER,
    "image push --repository": REPOSITORY,
    "image push --variant": VARIANT,
    "image save --builder": BUILDER,
    "image save --repository": REPOSITORY,
    "image save --variant": VARIANT,
    "plan --cold": WARM,
    "plan FILE SWEEP": "`deployer plan FILE`, without a sweep",
    "report --html": "`deployer report --to FILE.html`",
    "report --md": "`deployer report` prints Markdown, `--to FILE.md` writes it",
    "report --port": PAGE,
    "report --serve": PAGE,
    "results -o chart": "`deployer report --to FILE.html` draws it, and `deployer backend open`",
    "run --in-image": IN_IMAGE,
    "secret create": "`deployer secret set`",
    "secret rotate": "`deployer secret set`, which replaces a key that is there",
    "sweep pause --release": "`deployer sweep pause`, then `deployer agents down` frees the GPUs; "
    "`deployer agents up --replicas N` and `deployer sweep resume` go on",
    "up --cold": WARM,
    "up --in-image": IN_IMAGE,
    "up --lock": "the lock file is beside FILE: copy it",
    "up --no-lock": "the lock file is beside FILE: delete it; only `reproduce` needs it",
}
