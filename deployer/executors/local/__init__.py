"""Agents as processes on this machine."""
