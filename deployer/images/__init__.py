"""Images and archives of code: the client of docker, podman, buildah and image registries."""
