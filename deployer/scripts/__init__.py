"""The user's training script: which flags it has, and whether it takes what an agent would write.

The script is asked in its own interpreter (`rehearsal/`), up to the point where it has read its
flags. Knows nothing of servers and executors, and prints nothing.
"""
