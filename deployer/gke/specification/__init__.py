"""A cluster as its file describes it, with every problem at its place; pure.

It must not contact anything.
"""
