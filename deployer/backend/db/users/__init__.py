"""The tables of users: who they are, and their keys."""
