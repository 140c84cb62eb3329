"""What goes on in a sweep, and what a watcher does about it: restarts, duplicates, bad nodes.

It must not print.
"""
