"""Agents as Jobs and pods."""
