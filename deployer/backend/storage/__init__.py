"""Bytes: uploaded files, signed addresses, backups.

It must not know names that users chose.
"""
