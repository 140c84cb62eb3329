"""Processes on this machine, as a place where agents run."""

from deployer.local.place import LocalPlace

__all__ = ["LocalPlace"]
