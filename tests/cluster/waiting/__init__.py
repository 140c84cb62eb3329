"""Pods that do not run: why, and for how long they are waited for."""
