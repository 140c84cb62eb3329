# What an agent's pod runs: Python, the packages of uv.lock, deployer (with supervisor and backend)
# and the trainer; as user 1000, and on a read-only root file system too.
#
#   deployer image push                      or  docker build --tag trainer .
#
# Arguments (`build_args:` in deployer.yaml):
#   BASE        an image with Python 3.11 or newer and pip
#   VARIANT     cuda:   PyTorch as PyPI has it, CUDA's libraries included; the node brings the driver
#               cuda12: the last of PyPI for CUDA 12.6, for older GPUs, P100 and V100, too
#               cpu:    PyTorch from its own index of CPU builds, of the same version
#   EXTRAS      extras of pyproject.toml; empty leaves PyTorch out
#   LEFT_OUT    packages that no agent needs; `deployer` in a pod needs them to start agents itself
# Secrets, used by the build and left out of the image (`deployer image push` passes them along):
#   index       a shell file that sets PIP_INDEX_URL, UV_DEFAULT_INDEX and the like
#   ca          the certificate authorities by which the package index is known
#
# Measured in November 2026 with buildah 1.28 (chroot, overlay) on 2 shared cores, Debian's Python
# 3.11 (74 MB) as BASE, packages in the build's cache; `deployer image push` says the same of yours:
#                              on disk   in a registry   first build   after a change of code
#   VARIANT=cuda               6.17 GB   3.30 GB         212 s         13 s, 1.1 MB to push
#   EXTRAS= (no PyTorch)       195 MB    70 MB           14 s          2.5 s, 1.1 MB
ARG BASE=docker.io/library/python:3.12-slim-bookworm
ARG UV_VERSION=0.13.8

# The wheel's code and the trainer, not compiled: this layer is pushed at every change.
FROM ${BASE} AS code
ARG UV_VERSION
RUN --mount=type=secret,id=index --mount=type=secret,id=ca --mount=type=cache,target=/root/.cache \
    set -eu; \
    if [ -f /run/secrets/index ]; then . /run/secrets/index; fi; \
    if [ -f /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi; \
    python3 -m pip install --quiet --root-user-action ignore --disable-pip-version-check \
        --target /uv "uv==${UV_VERSION}"
WORKDIR /build
COPY . .
RUN --mount=type=secret,id=index --mount=type=secret,id=ca --mount=type=cache,target=/root/.cache \
    set -eu; \
    if [ -f /run/secrets/index ]; then . /run/secrets/index; fi; \
    if [ -f /run/secrets/ca ]; then export SSL_CERT_FILE=/run/secrets/ca; fi; \
    /uv/bin/uv pip install --quiet --no-config --link-mode copy --no-deps \
        --python "$(command -v python3)" --target /opt/code .; \
    cp -R trainer /opt/code; \
    sed -i '1s|.*|#!/opt/packages/bin/python3|' /opt/code/bin/*; \
    rm -r /opt/code/deployer/page/static/vendor

FROM ${BASE}
LABEL org.opencontainers.image.title="deployer" \
      org.opencontainers.image.description="Agents of Weights & Biases sweeps, and their trainer" \
      org.opencontainers.image.licenses="Apache-2.0"
ARG UV_VERSION
ARG VARIANT=cuda
ARG EXTRAS="trainer"
ARG LEFT_OUT="google-cloud-compute google-cloud-container kubernetes"
# What `torch.cuda.get_arch_list()` prints; `deployer doctor` compares it with the GPUs.
LABEL dev.deployer.variant="${VARIANT}" \
      dev.deployer.cuda-architectures.cuda="sm_75 sm_80 sm_86 sm_90 sm_100 sm_120" \
      dev.deployer.cuda-architectures.cuda12="sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"
WORKDIR /opt/lock
COPY pyproject.toml uv.lock ./
# The big layer: it changes with uv.lock and not with code. It is made here, not in a stage of its
# own: buildah would copy its gigabytes at every build to see whether they have changed.
# Compiled, since nothing can be written later; by content, whatever becomes of the files' times.
RUN --mount=type=secret,id=index --mount=type=secret,id=ca --mount=type=cache,target=/root/.cache \
    set -eu; \
    if [ -f /run/secrets/index ]; then . /run/secrets/index; fi; \
    if [ -f /run/secrets/ca ]; then export SSL_CERT_FILE=/run/secrets/ca PIP_CERT=/run/secrets/ca; fi; \
    PYTHONDONTWRITEBYTECODE=1 python3 -m pip install --quiet --root-user-action ignore \
        --disable-pip-version-check --target /uv "uv==${UV_VERSION}"; \
    export PATH="/uv/bin:$PATH" VIRTUAL_ENV=/opt/packages UV_NO_CONFIG=1 UV_LINK_MODE=copy; \
    export UV_COMPILE_BYTECODE=1 PYC_INVALIDATION_MODE=UNCHECKED_HASH; \
    wanted="--frozen --no-dev --no-emit-project --quiet"; \
    for extra in ${EXTRAS}; do wanted="$wanted --extra $extra"; done; \
    for package in ${LEFT_OUT}; do wanted="$wanted --prune $package"; done; \
    uv venv --quiet --python "$(command -v python3)" /opt/packages; \
    uv export $wanted --no-hashes --output-file pins.txt; \
    torch="$(grep -oE '^torch(vision)?==[^ ]+' pins.txt || true)"; \
    if [ "${VARIANT}" != cuda ] && [ -n "$torch" ]; then \
        uv export $wanted --prune torch --prune torchvision --output-file locked.txt; \
        uv pip install --quiet --require-hashes --requirements locked.txt; \
        if [ "${VARIANT}" = cpu ]; then \
            uv pip install --quiet --constraints pins.txt --torch-backend cpu $torch; \
        else \
            uv pip install --quiet --constraints locked.txt torch==2.7.1 torchvision==0.22.1; \
        fi; \
    else \
        uv export $wanted --output-file locked.txt; \
        uv pip install --quiet --require-hashes --requirements locked.txt; \
    fi; \
    echo /opt/code > "$(echo /opt/packages/lib/python3.*/site-packages)/code.pth"; \
    rm -r pins.txt locked.txt /uv
# The driver's libraries and nvidia-smi come from the node, where there is one.
ENV PATH=/opt/code/bin:/opt/packages/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /tmp
USER 1000:1000
CMD ["deployer", "--help"]
# The page's library of charts is as large as all the rest, and seldom another one.
COPY deployer/page/static/vendor /opt/code/deployer/page/static/vendor
COPY --from=code /opt/code /opt/code
