"""Explains why agents cannot run in a cluster: refusals of `up`, findings of the doctor."""
