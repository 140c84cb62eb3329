"""What a cluster costs, from a table in which every figure has a source and a day; pure.

It must not contact anything.
"""
