"""The tables of artifacts: collections, versions, their aliases and files."""
