"""The client of Google Cloud: GKE clusters, their prices, and the resources they leave behind.

Importing the parts that call Google takes more than a second, so import them inside functions.
"""
