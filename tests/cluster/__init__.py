"""Tests on a real Kubernetes, and the test cluster that they run on."""
