"""The user's training script: its flags, and whether it accepts the commands of an agent.

The script is started in its own interpreter (`rehearsal/`) until it has parsed its flags. Knows
nothing of servers and executors, and prints nothing.
"""
