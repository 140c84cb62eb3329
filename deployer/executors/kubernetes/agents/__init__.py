"""Agents as Jobs and pods: their state, logs, removal and leftovers."""
