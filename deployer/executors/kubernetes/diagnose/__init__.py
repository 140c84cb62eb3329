"""Why agents cannot run in a cluster: what `up` refuses, what the doctor says."""
