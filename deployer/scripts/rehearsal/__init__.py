"""A command up to `parse_args`: runs a script in its own interpreter until it reads its flags.

Standard library, Python 3.8. One process parses many command lines with the script's own parser,
writes what came of them to a file, and ends at once: nothing behind that runs.
"""
