"""The client of Google Cloud: GKE clusters, what they cost, and what they leave behind.

Importing the parts that talk to it takes a second and more: do so where they are used.
"""
