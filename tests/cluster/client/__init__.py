"""The client of Kubernetes and what it sends, on real servers."""
