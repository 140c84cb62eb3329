"""Processes on this machine, as a place where agents run."""
