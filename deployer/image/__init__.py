"""The only door to docker, podman, buildah and image registries."""

from deployer.image.config import ImageConfig, load_image_config
from deployer.image.images import (
    BuiltImage,
    LoadedImage,
    SavedImage,
    build_image,
    find_pushed,
    load_image,
    push_image,
    save_image,
)

__all__ = [
    "BuiltImage",
    "ImageConfig",
    "LoadedImage",
    "SavedImage",
    "build_image",
    "find_pushed",
    "load_image",
    "load_image_config",
    "push_image",
    "save_image",
]
