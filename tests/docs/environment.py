"""What each environment variable of `deployer` means, in the order of the reference."""

from __future__ import annotations

USERS = {
    "DEPLOYER_ON": "Where agents run, as `--on`.",
    "DEPLOYER_OWNER": "The owner of created objects, as `--owner`.",
    "DEPLOYER_REPLICAS": "The number of agents, as `--replicas`.",
    "DEPLOYER_WANDB": "The W&B server, as `--wandb`.",
    "DEPLOYER_HOME": "The state folder: records of sweeps, local agents, the embedded backend's "
    "data. Default: `deployer` in the platform's folder for user data.",
    "DEPLOYER_REGISTRY_USER": "The user name for the image registry.",
    "DEPLOYER_REGISTRY_PASSWORD": "The password for the image registry.",
    "DEPLOYER_REGISTRY_TOKEN": "A token for the image registry, instead of a password.",
    "DEPLOYER_REGISTRY_CA": "The registry's certificate authority, a PEM file, as `image.ca`.",
}
TRAINERS = {
    "DEPLOYER_CHECKPOINT_DIR": "The run's folder for checkpoints, the same at every attempt.",
    "DEPLOYER_OUTPUT_DIR": "The run's folder for its model and other results, which are kept.",
    "DEPLOYER_DATA_DIR": "The folder of the first data set in `data:`. Each data set also has a "
    "variable with its name, such as `DEPLOYER_DATA_DIR_MNIST`.",
    "JOB_ID": "The number of the run's hyperparameter set, from 1, in a sweep of `sweep import`.",
    "WANDB_GIT_COMMIT, WANDB_GIT_REMOTE_URL": "The commit of `code:` and its repository.",
}
AGENTS = {
    "DEPLOYER_SWEEP_PATH": "ENTITY/PROJECT/SWEEP_ID of the agent's sweep.",
    "DEPLOYER_AGENT": "The agent's name.",
    "DEPLOYER_AGENT_FOLDER": "The agent's folder: its log, its runs' files, its state.",
    "DEPLOYER_AGENTS_FOLDER": "The folder in which each agent of a pod has its own.",
    "DEPLOYER_AGENTS": "The names of all agents of a pod that has several (`agents_per_pod`).",
    "DEPLOYER_AGENT_START": "The start of the supervisor that a process belongs to.",
    "DEPLOYER_AGENT_COUNT": "How many runs the agent takes before it leaves; 1 with "
    "`--one-run-per-job`.",
    "DEPLOYER_AGENT_DEADLINE": "When the agent leaves, in seconds since the epoch (`--max-time`).",
    "DEPLOYER_AGENT_POLLS": "How the agent waits for its run: `quick` or `stock`, as `polls:`.",
    "DEPLOYER_AGENT_WARM": "With 1, runs are forked from a warm parent, as `warm:`; after the 1, "
    "more packages to preload.",
    "DEPLOYER_OLD_BASE_URL": "The address of W&B's cloud for runs with an SDK before 0.31.",
    "DEPLOYER_METRICS": "The settings of `metrics:`, in JSON.",
    "DEPLOYER_ISOLATE": "With 1, each run works in a folder of its own, as `isolate:`.",
    "DEPLOYER_METRICS_CLAIM": "Where a script says that it opens its run itself.",
    "DEPLOYER_AGENT_GRACE_SECONDS": "How many seconds an interrupted run may take to end.",
    "DEPLOYER_AGENT_FINISH_TIMEOUT_SECONDS": "How many seconds a run that has ended may keep "
    "sending while the server is unreachable.",
    "DEPLOYER_CHECKPOINT_ROOT": "The folder of all runs' checkpoint folders.",
    "DEPLOYER_OUTPUT_ROOT": "The folder of all runs' folders for outputs.",
    "DEPLOYER_OUTPUT_KEEP": "Where to send outputs when a run ends: `wandb` for an artifact; empty "
    "if their folder is kept.",
    "DEPLOYER_KEY_FILE": "A file with the W&B key.",
    "DEPLOYER_RUN_PROLOGUE": "The run that the prologue has prepared already.",
    "DEPLOYER_TERMINATION_LOG": "The container's termination log, for the supervisor's last "
    "sentence.",
    "DEPLOYER_CODE_ARCHIVE": "The archive of the project's code, or its parts.",
    "DEPLOYER_CODE_FOLDER": "Where the archive is unpacked.",
    "DEPLOYER_NODE": "The node of the agent's pod, which the embedded backend's page shows.",
    "DEPLOYER_INSTALL_WANDB": "With 1, the agent installs wandb, as `kubernetes.install_wandb`.",
    "DEPLOYER_POD_ANNOTATIONS": "The file with the pod's annotations, by which it is drained.",
}
BACKEND = {
    "DEPLOYER_BACKEND_KEY_FILE": "A file with the key of the backend's first user, such as a "
    "mounted Secret.",
    "DEPLOYER_BACKEND_CLOCK_FILE": "A file with the number of seconds by which to move the clock; "
    "for tests.",
    "DEPLOYER_BACKEND_EXIT_RECORD_SECONDS": "How long the exit record of a run that ended may take "
    "to arrive.",
    "DEPLOYER_BACKEND_SILENCE_SECONDS": "How long a run may be silent before it counts as crashed.",
    "DEPLOYER_BACKEND_GRACEFUL_STOP_SECONDS": "How long a stopped run may flush before it is "
    "killed.",
    "DEPLOYER_BACKEND_UNSTARTED_WAIT_SECONDS": "How long to wait before retrying a run whose "
    "trainer never called `wandb.init`.",
}
OTHERS = {
    "WANDB_IDENTITY_TOKEN_FILE, WANDB_CREDENTIALS_FILE": "A login without a key, as for the "
    "`wandb` SDK.",
    "WANDB_X_EXTRA_HTTP_HEADERS": "Headers for a gateway in front of the W&B server, as JSON.",
    "WANDB_APP_URL": "The address of the server's pages, if the SDK's default is wrong.",
    "SSL_CERT_FILE, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE": "Certificate authorities to trust in "
    "addition to the system's.",
    "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY": "The proxy to the W&B server.",
    "WANDB_API_KEY, WANDB_BASE_URL, WANDB_ENTITY, WANDB_PROJECT": "As for the `wandb` SDK; the "
    "default is in its settings files and netrc.",
    "VIRTUAL_ENV, CONDA_PREFIX": "The active environment, whose Python local runs use.",
    "KUBECONFIG": "The kubeconfig, as for kubectl.",
    "GOOGLE_APPLICATION_CREDENTIALS, GOOGLE_CLOUD_PROJECT": "Google's credentials and project, as "
    "for its client libraries.",
    "DOCKER_CONFIG, REGISTRY_AUTH_FILE": "Where `docker login` and `podman login` keep registry "
    "credentials.",
    "PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, UV_INDEX_URL, UV_DEFAULT_INDEX": "Package indexes for "
    "the build of the image.",
}
GROUPS = {
    "For users": USERS,
    "For trainers": TRAINERS,
    "Between deployer and its agents": AGENTS,
    "For the embedded backend": BACKEND,
    "Of others, read too": OTHERS,
}
