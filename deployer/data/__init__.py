"""Data sets and results as trees of files: their locations, and how to copy and unpack them.

A `Store` is one such tree. Knows no agents and no sweeps, and prints nothing.
"""
