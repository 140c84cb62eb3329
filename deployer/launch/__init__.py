"""From files and flags to running agents: resolve, check, provision, create, plan, apply, watch.

It must not print.
"""
