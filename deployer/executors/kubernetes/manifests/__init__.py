"""From a plan to Kubernetes manifests: their shape is in k8s/*.yaml, Python sets what it owns."""
