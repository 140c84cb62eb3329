"""What W&B's clients ask: the schema, and resolvers that translate and call.

It must not hold SQL.
"""
