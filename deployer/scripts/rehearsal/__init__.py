"""A rehearsal: a sweep's command runs in its own interpreter until its script has parsed its flags.

Runs on this machine and in pods: standard library, Python 3.8. The files of `prologue/` are
imported by the script's interpreter.
"""
