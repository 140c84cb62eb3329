"""Bytes: uploaded files, signed addresses, backups.

It must not use names chosen by users.
"""
