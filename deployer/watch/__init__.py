"""Watching a sweep: its status, restarts of agents, duplicates, bad nodes.

It must not print.
"""
