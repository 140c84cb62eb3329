"""The three networks. Each takes normalised images (N, C, H, W) and returns logits (N, classes)."""

from torch import Tensor, nn


def build_model(
    name: str,
    shape: tuple[int, int, int],
    classes: int,
    *,
    width: int,
    dropout: float,
    batch_norm: bool,
) -> nn.Module:
    """Build the `mlp`, `cnn` or `resnet9` for images of `shape` (channels, height, width)."""
    if name == "mlp":
        return build_mlp(shape, classes, width, dropout, batch_norm)
    if name == "cnn":
        return build_cnn(shape, classes, width, dropout, batch_norm)
    return build_resnet9(shape[0], classes, width, dropout, batch_norm)


def count_parameters(model: nn.Module) -> int:
    """Count the trainable numbers of a model."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def build_mlp(
    shape: tuple[int, int, int], classes: int, width: int, dropout: float, batch_norm: bool
) -> nn.Module:
    """Build two hidden layers of `width` units."""
    pixels = shape[0] * shape[1] * shape[2]
    return nn.Sequential(
        nn.Flatten(),
        dense(pixels, width, batch_norm),
        dense(width, width, batch_norm),
        nn.Dropout(dropout),
        nn.Linear(width, classes),
    )


def build_cnn(
    shape: tuple[int, int, int], classes: int, width: int, dropout: float, batch_norm: bool
) -> nn.Module:
    """Build two convolutions with pooling, of `width` and twice `width` channels."""
    channels, height, columns = shape
    return nn.Sequential(
        convolution(channels, width, batch_norm),
        nn.MaxPool2d(2),
        convolution(width, 2 * width, batch_norm),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(2 * width * (height // 4) * (columns // 4), classes),
    )


def build_resnet9(
    channels: int, classes: int, width: int, dropout: float, batch_norm: bool
) -> nn.Module:
    """Build David Page's ResNet-9 (cifar10-fast, dawn.py); width 64 has 6,573,120 parameters."""
    return nn.Sequential(
        convolution(channels, width, batch_norm),
        convolution(width, 2 * width, batch_norm),
        nn.MaxPool2d(2),
        Residual(2 * width, batch_norm),
        convolution(2 * width, 4 * width, batch_norm),
        nn.MaxPool2d(2),
        convolution(4 * width, 8 * width, batch_norm),
        nn.MaxPool2d(2),
        Residual(8 * width, batch_norm),
        GlobalMax(),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(8 * width, classes, bias=False),
        Scale(0.125),
    )


def dense(inputs: int, outputs: int, batch_norm: bool) -> nn.Module:
    """Build a linear layer with its normalisation, which makes the bias superfluous, and ReLU."""
    norm = nn.BatchNorm1d(outputs) if batch_norm else nn.Identity()
    return nn.Sequential(nn.Linear(inputs, outputs, bias=not batch_norm), norm, nn.ReLU())


def convolution(inputs: int, outputs: int, batch_norm: bool) -> nn.Module:
    """Build a 3x3 convolution that keeps the image's size, its normalisation and ReLU."""
    norm = nn.BatchNorm2d(outputs) if batch_norm else nn.Identity()
    layer = nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=not batch_norm)
    return nn.Sequential(layer, norm, nn.ReLU())


class Residual(nn.Module):
    """Add two convolutions of an image to it."""

    def __init__(self, channels: int, batch_norm: bool) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            convolution(channels, channels, batch_norm),
            convolution(channels, channels, batch_norm),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        branch: Tensor = self.branch(images)
        return images + branch


class GlobalMax(nn.Module):
    """Keep each channel's maximum, as AdaptiveMaxPool2d(1), which has no deterministic gradient."""

    def forward(self, images: Tensor) -> Tensor:
        """Return a tensor (N, C, 1, 1)."""
        return images.amax(dim=(2, 3), keepdim=True)


class Scale(nn.Module):
    """Multiply logits by a constant: Page's network starts out less sure of itself with 1/8."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, logits: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return logits * self.factor
