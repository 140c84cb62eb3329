"""The article's training, logged to W&B: each job trains with its own set of hyperparams.yml."""

import os

import wandb
from article import get_hyperparameters, train

if __name__ == "__main__":
    job_id = int(os.environ["JOB_ID"])
    with wandb.init(config=get_hyperparameters(job_id)) as run:
        for row in train(job_id, os.environ.get("DEPLOYER_DATA_DIR", "data")):
            run.log(row)
