"""What a cluster has and lacks for agents, as findings: a module for each noun, judgement pure.

Readers leave nothing behind: they read, review access, and create as dry runs.
"""
