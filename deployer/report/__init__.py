"""The report of a sweep: one page in a file that needs no server.

The functions of `page` and `analysis` build its content, so that it and the embedded backend's page
never disagree. It reads any W&B server, only through `wandb_api`. Values of parameters with names
like secrets are removed first.
"""
