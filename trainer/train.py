"""The training loop: one row of metrics per epoch, printed and logged to W&B."""

import math
import os
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from trainer.args import Arguments
from trainer.batches import TrainingBatches
from trainer.checkpoint import Progress, Row, load_checkpoint, save_checkpoint
from trainer.data import Dataset, Split, load_dataset
from trainer.errors import TrainerError
from trainer.initial import WHITENED_IMAGES, build_whitening, start_as_identity
from trainer.models import build_model, count_parameters
from trainer.outputs import best_row, save_outputs

EVALUATION_BATCH = 1000  # images; has no effect on the numbers
AMPERE = (8, 0)  # compute capability
PEAK = 5 / 24  # share of the steps before one_cycle's highest rate: cifar10-fast's epoch 5 of 24


def prepare(args: Arguments) -> tuple[Dataset, Progress]:
    """Seed torch, load the data, and build the model with its optimizer and schedule."""
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    choose_kernels(args.deterministic)
    device = choose_device(args.device)
    dataset = load_dataset(
        args.dataset,
        Path(args.data),
        device,
        validation_split=args.validation_split,
        train_limit=args.train_limit,
        test_limit=args.test_limit,
    )
    model = start_model(args, dataset)
    average = None
    if args.ema:
        follow = get_ema_multi_avg_fn(args.ema)
        average = AveragedModel(model, multi_avg_fn=follow, use_buffers=True)
    if args.compile:
        model.compile()
    optimizer = build_optimizer(args, model)
    steps = args.epochs * dataset.steps_per_epoch(args.batch_size)
    factor = partial(learning_rate_factor, args.schedule, steps=steps)
    scaled = args.amp and half_type(device) is torch.float16
    scaler = GradScaler(device.type, enabled=scaled)
    return dataset, Progress(model, optimizer, LambdaLR(optimizer, factor), scaler, average)


def choose_kernels(deterministic: bool) -> None:
    """Choose between kernels that are fast and kernels that add in the same order each time."""
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
        torch.use_deterministic_algorithms(True)
    # Images have one size: cuDNN measures once which of its convolutions is the fastest for it.
    torch.backends.cudnn.benchmark = not deterministic


def start_model(args: Arguments, dataset: Dataset) -> nn.Module:
    """Build the model on the data set's device, with its weights before the first step."""
    images = dataset.normalise(dataset.train.images[:WHITENED_IMAGES]).cpu()
    whitening = build_whitening(images) if args.whiten else nn.Identity()
    channels, height, width = whitening(images[:1]).shape[1:]
    model = build_model(
        args.model,
        (channels, height, width),
        dataset.classes,
        width=args.width,
        dropout=args.dropout,
        batch_norm=args.batch_norm,
    )
    if args.dirac:
        start_as_identity(model)
    if args.whiten:
        model = nn.Sequential(whitening, model)
    return model.to(dataset.device).to(memory_format=torch.channels_last)


def choose_device(name: str) -> torch.device:
    """Return the device of that name; `auto` is a GPU if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise TrainerError(f"--device {name}: {reason}", "--device cpu works anywhere") from error
    return device


def half_type(device: torch.device) -> torch.dtype | None:
    """Return the type of 16 bits that a device is fast with, if there is one.

    GPUs before Ampere lack bfloat16. x86 processors without AVX-512 convert each value of it: with
    AVX2 alone an epoch of the small CIFAR-10 recipe takes 7 times as long as in 32 bits.
    """
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < AMPERE:
        return torch.float16
    x86 = platform.machine() in ("x86_64", "AMD64")
    if device.type == "cpu" and x86 and "AVX512" not in torch.backends.cpu.get_cpu_capability():
        return None
    return torch.bfloat16


def build_optimizer(args: Arguments, model: nn.Module) -> Optimizer:
    """Build torch's optimizer of that name for all parameters.

    Fused on a GPU: one kernel changes all of them, and a skipped step is decided there.
    """
    on_gpu = next(model.parameters()).is_cuda
    rate, decay, momentum = args.learning_rate, args.weight_decay, args.momentum
    parameters = [one for one in model.parameters() if one.requires_grad]
    if args.optimizer == "sgd":
        nesterov = args.nesterov and momentum > 0
        return SGD(
            parameters,
            rate,
            momentum=momentum,
            weight_decay=decay,
            nesterov=nesterov,
            fused=on_gpu,
        )
    if args.optimizer == "rmsprop":
        return RMSprop(parameters, rate, momentum=momentum, weight_decay=decay)
    kind = Adam if args.optimizer == "adam" else AdamW
    return kind(parameters, rate, weight_decay=decay, fused=on_gpu)


def learning_rate_factor(schedule: str, step: int, *, steps: int) -> float:
    """Return the share of the highest learning rate at a step, counted from 0.

    one_cycle rises in a straight line from 0 and falls in one to 0, as cifar10-fast does; cosine
    falls from the highest rate to 0 along half a cosine (arXiv 1608.03983).
    """
    done = (step + 1) / (steps + 1)  # the first and the last step train, too
    if schedule == "one_cycle":
        return min(done / PEAK, (1 - done) / (1 - PEAK))
    if schedule == "cosine":
        return (1 + math.cos(math.pi * done)) / 2
    return 1.0


def train(args: Arguments, dataset: Dataset, progress: Progress, log: Callable[[Row], None]) -> Row:
    """Train to the last epoch, give each epoch's row to `log`, and return the best one.

    With a checkpoint folder the run goes on after the last epoch that is in it; the rows of the
    epochs before are given to `log` again, since they may not have reached the server.
    """
    checkpoints = Path(args.checkpoint_dir) if args.checkpoint_dir else None
    if checkpoints:
        load_checkpoint(checkpoints, progress, args.hyperparameters(), dataset.device)
    for row in progress.history:
        log(row)
    batches = TrainingBatches(dataset, args)
    while progress.epoch < args.epochs:
        row = run_epoch(args, batches, progress)
        progress.history.append(row)
        log(row)
        # The checkpoint is last: what dies before it is written does this epoch again.
        if args.output_dir:
            save_outputs(Path(args.output_dir), progress, args.hyperparameters())
        is_due = progress.epoch % args.checkpoint_every == 0 or progress.epoch == args.epochs
        if checkpoints and is_due:
            save_checkpoint(checkpoints, progress, args.hyperparameters())
    return best_row(progress.history)


def run_epoch(args: Arguments, batches: TrainingBatches, progress: Progress) -> Row:
    """Train for one epoch, measure, and return the epoch's row.

    `seconds` are all of the epoch, `train_seconds` what training took of them.
    """
    start = time.perf_counter()
    dataset = batches.dataset
    row: Row = {"epoch": progress.epoch + 1}
    row["train_loss"], row["train_accuracy"] = train_epoch(args, batches, progress)
    train_seconds = time.perf_counter() - start
    splits = {"val": dataset.validation, "test": dataset.test}
    if dataset.validation is dataset.test:
        del splits["test"]
    for name, split in splits.items():
        loss, accuracy = evaluate(args, dataset, split, progress.result)
        row |= {f"{name}_loss": loss, f"{name}_accuracy": accuracy}
    seconds = time.perf_counter() - start
    return row | {"train_seconds": round(train_seconds, 3), "seconds": round(seconds, 3)}


def train_epoch(
    args: Arguments, batches: TrainingBatches, progress: Progress
) -> tuple[float, float]:
    """Train once over the images; return the mean loss and the accuracy on the way."""
    progress.model.train()
    device = batches.dataset.device
    loss_sum, correct = torch.zeros((), device=device), torch.zeros((), device=device)
    seen = 0
    for images, labels in batches.in_epoch(progress.epoch):
        with autocast(args, device):
            logits = progress.model(images)
            loss = cross_entropy(logits, labels, label_smoothing=args.label_smoothing)
        progress.optimizer.zero_grad()
        progress.scaler.scale(loss).backward()
        progress.scaler.step(progress.optimizer)
        progress.scaler.update()
        progress.scheduler.step()
        if progress.average:
            progress.average.update_parameters(progress.model)
        loss_sum += loss.detach() * len(labels)  # summed on the device: no wait for each step
        correct += count_correct(logits, labels)
        seen += len(labels)
    return loss_sum.item() / seen, correct.item() / seen


def autocast(args: Arguments, device: torch.device) -> torch.autocast:
    """Compute in 16 bits where it is safe, if the arguments say so."""
    half = half_type(device)
    return torch.autocast(device.type, half, enabled=args.amp and half is not None)


@torch.no_grad()
def evaluate(
    args: Arguments, dataset: Dataset, split: Split, model: nn.Module
) -> tuple[float, float]:
    """Return the mean cross entropy and the accuracy on all images of a split."""
    model.eval()
    device = dataset.device
    loss_sum, correct = torch.zeros((), device=device), torch.zeros((), device=device)
    for images, labels in split.in_batches(EVALUATION_BATCH):
        images = dataset.normalise(images)
        with autocast(args, device):
            logits = model(images)
            if args.test_flip and dataset.mirrored:
                logits = (logits + model(images.flip(-1))) / 2
            loss_sum += cross_entropy(logits, labels, reduction="sum")
        correct += count_correct(logits, labels)
    return loss_sum.item() / len(split.labels), correct.item() / len(split.labels)


def count_correct(logits: Tensor, labels: Tensor) -> Tensor:
    """Count the images whose highest logit is that of their class."""
    return (logits.argmax(dim=1) == labels).sum()


def describe(args: Arguments, dataset: Dataset, progress: Progress) -> str:
    """Show a run before it starts: its configuration, its model's size, its first batch."""
    images, labels = next(TrainingBatches(dataset, args).in_epoch(0))
    settings = ((name, "none" if value == "" else value) for name, value in vars(args).items())
    lines = [f"{name:16} {value}" for name, value in settings]
    lines += [
        f"{'images':16} {len(dataset.train.labels)} to train, "
        f"{len(dataset.validation.labels)} to validate, {len(dataset.test.labels)} to test",
        f"{'parameters':16} {count_parameters(progress.model)}",
        f"{'batch':16} images {tuple(images.shape)}, labels {tuple(labels.shape)}, {images.device}",
    ]
    return "\n".join(lines)
