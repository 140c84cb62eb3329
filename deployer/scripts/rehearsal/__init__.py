"""A rehearsal: a sweep's command runs in its own interpreter until its script has parsed its flags.

The script's interpreter imports the files of `prologue/`: standard library, Python 3.8.
"""
