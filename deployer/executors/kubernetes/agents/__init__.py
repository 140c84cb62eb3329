"""Agents as Jobs and pods: reading them, their logs, their removal, what is left of them."""
