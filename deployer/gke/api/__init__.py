"""The client of Google Cloud: requests, messages, operations, and what its refusals mean.

It must not decide what is made or removed.
"""
