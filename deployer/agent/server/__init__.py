"""The supervisor's requests to the W&B server, with which key, and what the answers mean."""
