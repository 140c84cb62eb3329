"""Outputs and artifacts of runs: where they are, and how to copy them.

Selects runs, finds the locations of their outputs and copies them; prints nothing.
"""
