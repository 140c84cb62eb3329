"""The report of a sweep: one page in a file that needs no server.

What it shows is made by the functions of `page` and `analysis`, so that it and the embedded
backend's page never disagree. It reads any W&B server through `wandb_api` alone. The values of
parameters whose names are those of secrets are taken out before anything is made of them.
"""
