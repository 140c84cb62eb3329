"""The GraphQL API of W&B's clients: the schema, and resolvers that translate and call.

It must not hold SQL.
"""
