"""From a plan to Kubernetes manifests: their shape is in k8s/*.yaml, Python sets what it owns."""

from deployer.manifests.build import KEY_COMPONENT, build_manifests, build_secret
from deployer.manifests.config_maps import read_code_maps
from deployer.manifests.fields import Manifest
from deployer.manifests.inputs import Inputs, load_inputs
from deployer.manifests.job import find_container
from deployer.manifests.owned import owned_paths
from deployer.manifests.templates import Templates, load_templates

__all__ = [
    "KEY_COMPONENT",
    "Inputs",
    "Manifest",
    "Templates",
    "build_manifests",
    "build_secret",
    "find_container",
    "load_inputs",
    "load_templates",
    "owned_paths",
    "read_code_maps",
]
