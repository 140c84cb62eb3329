"""A sweep: its file and parameters, creation, results, recount, and reruns of missing runs.

It must not know where agents run, or print.
"""
