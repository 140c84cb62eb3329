"""Four warm runs of one agent log what people log beside numbers: two agents would hide a fault."""

from __future__ import annotations

import uuid

import pytest

from deployer.agent.settings import WARM_VARIABLE
from deployer.model import SweepPath
from deployer.wandb_api.operations import create_sweep
from tests.agent.conftest import Bench
from tests.users_python import environment_with

pytestmark = pytest.mark.slow

MEDIA = """
import argparse, io
import matplotlib
import numpy
import PIL.Image
import wandb
matplotlib.use("agg")
from matplotlib import pyplot

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
lr = parser.parse_args().lr
frames = [PIL.Image.new("RGB", (8, 8), (shade, 0, 0)) for shade in (0, 99, 199)]
frames[0].save("clip.gif", save_all=True, append_images=frames[1:])
figure, axes = pyplot.subplots()
axes.plot([1, 2, 3])
table = wandb.Table(columns=["x", "y"], data=[[1, lr], [2, 2 * lr]])
table.add_column("picture", [wandb.Image(numpy.full((4, 4), n, "uint8")) for n in (1, 2)])
with wandb.init() as run:
    run.log({
        "loss": lr,
        "table": table,
        "array": wandb.Image(numpy.zeros((8, 8, 3), "uint8")),
        "picture": wandb.Image(frames[0]),
        "figure": wandb.Image(figure),
        "page": wandb.Html("<b>bold</b>"),
        "molecule": wandb.Molecule(io.StringIO("HEADER"), file_type="pdb"),
        "clip": wandb.Video("clip.gif", format="gif"),
        "line": wandb.plot.line(wandb.Table(["x", "y"], [[1, lr], [2, lr]]), "x", "y"),
        "bars": wandb.plot.histogram(wandb.Table(["x"], [[1], [lr]]), "x"),
    })
    model = wandb.Artifact("model", "model")
    with model.new_file("weights.txt") as file:
        file.write(str(lr))
    run.log_artifact(model)
pyplot.close()
"""
LOGGED = ("table", "array", "picture", "figure", "page", "molecule", "clip", "bars_table")
SWEEP = """
program: train.py
method: grid
metric: {name: loss, goal: minimize}
parameters:
"""


def start_sweep(bench: Bench, script: str, parameters: str) -> SweepPath:
    """Write the script and make a grid sweep of it."""
    (bench.folder / "train.py").write_text(script)
    name = f"media-{uuid.uuid4().hex[:8]}"
    made = create_sweep(
        bench.client, SWEEP + parameters, bench.backend.entity, name, uuid.uuid4().hex
    )
    return made[0]


@pytest.mark.parametrize("packages", ["", " matplotlib PIL"], ids=["", "preloaded"])
def test_four_runs_of_one_agent_log_tables_and_pictures(bench: Bench, packages: str) -> None:
    path = start_sweep(bench, MEDIA, "  lr: {values: [0.1, 0.2, 0.3, 0.4]}\n")
    supervised = bench.start_with_own_key(path, **{WARM_VARIABLE: f"1{packages}"})
    code, output = supervised.wait()
    assert code == 0, output
    runs = bench.runs(path)
    assert [run.state for run in runs] == ["finished"] * 4, output
    assert supervised.status
    assert supervised.status.run_start == "warm"
    for run in runs:
        assert [name for name in LOGGED if name not in run.summary] == [], sorted(run.summary)
        assert run.summary["table"]["nrows"] == 2
    assert supervised.left() == []


LOGGERS = """
import argparse
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--logger")
parser.add_argument("--seed", type=int)
arguments = parser.parse_args()


def use_lightgbm():
    import lightgbm, numpy
    from wandb.integration.lightgbm import log_summary, wandb_callback
    rows = numpy.random.rand(200, 3)
    data = lightgbm.Dataset(rows, rows[:, 0])
    with wandb.init():
        callbacks = [wandb_callback()]
        options = {"verbose": -1, "num_threads": 1}
        trained = lightgbm.train(options, data, 3, valid_sets=[data], callbacks=callbacks)
        log_summary(trained, save_model_checkpoint=True)
        wandb.log({"loss": 1.0})


def use_sklearn():
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression
    rows, labels = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(rows, labels)
    with wandb.init():
        names = ["a", "b", "c"]
        wandb.sklearn.plot_classifier(model, rows, rows, labels, labels, model.predict(rows),
                                      model.predict_proba(rows), names)
        wandb.log({"loss": 1.0})


def use_lightning():
    import lightning, torch
    from lightning.pytorch.loggers import WandbLogger

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def training_step(self, batch, _):
            loss = self.layer(batch[0]).pow(2).mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    rows = torch.utils.data.TensorDataset(torch.rand(8, 2))
    logger = WandbLogger(log_model=True)
    trainer = lightning.Trainer(
        max_epochs=2, logger=logger, log_every_n_steps=1, accelerator="cpu",
        enable_progress_bar=False,
    )
    trainer.fit(Model(), torch.utils.data.DataLoader(rows, batch_size=4))
    logger.log_table("samples", columns=["a"], data=[[1], [2]])
    wandb.finish()


def use_huggingface():
    import torch
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
    sizes = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    model = BertForSequenceClassification(BertConfig(vocab_size=16, **sizes))
    rows = [{"input_ids": torch.arange(4), "labels": n % 2} for n in range(8)]
    options = TrainingArguments("out", num_train_epochs=1, report_to=["wandb"], logging_steps=1,
                                use_cpu=True, save_strategy="no", disable_tqdm=True)
    Trainer(model, options, train_dataset=rows).train()
    wandb.log({"loss": 1.0})
    wandb.finish()


globals()["use_" + arguments.logger]()
"""
PACKAGES = ("lightgbm", "scikit-learn", "pandas", "lightning", "transformers", "accelerate")


@pytest.mark.full
@pytest.mark.limit(900)
@pytest.mark.parametrize("version", ["0.22.3", "0.26.1", "0.31.0"])
def test_two_runs_of_each_logger_in_one_agent(bench: Bench, version: str) -> None:
    python = environment_with(f"wandb=={version}", *PACKAGES)
    loggers = "  logger: {values: [lightgbm, sklearn, lightning, huggingface]}\n"
    path = start_sweep(bench, LOGGERS, f"  seed: {{values: [1, 2]}}\n{loggers}")
    preloaded = "1 lightgbm sklearn matplotlib lightning transformers"
    settings = {WARM_VARIABLE: preloaded, "PATH": f"{python.parent}:/usr/bin:/bin"}
    supervised = bench.start_with_own_key(path, python=python, **settings)
    code, output = supervised.wait(800)
    assert code == 0, output
    assert [run.state for run in bench.runs(path)] == ["finished"] * 8, output
    assert supervised.left() == []
