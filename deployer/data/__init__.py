"""Data sets and results as trees of files: where they are kept, how they are copied and unpacked.

A `Store` is one such tree. Knows no agents and no sweeps, and prints nothing.
"""
