"""Images and archives of code: docker, podman, buildah and image registries; nothing else asks them."""
