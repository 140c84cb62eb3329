"""The only door to docker, podman, buildah and image registries."""
