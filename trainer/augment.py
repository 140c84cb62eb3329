"""Random changes of a batch of images (N, C, H, W), made on their device without a Python loop.

Random numbers come from torch's default generator on the CPU: a seed means the same on any device.
"""

import torch
from torch import Tensor


def crop(images: Tensor, margin: int) -> Tensor:
    """Shift each image by up to `margin` pixels in both directions, filled by reflection."""
    count, _, height, width = images.shape
    down, right = torch.randint(2 * margin + 1, (2, count, 1)).to(images.device)
    rows = (down + torch.arange(height, device=images.device))[:, None, :, None]
    columns = (right + torch.arange(width, device=images.device))[:, None, None, :]
    padded = torch.nn.functional.pad(images, [margin] * 4, mode="reflect")
    channels = torch.arange(images.shape[1], device=images.device)[None, :, None, None]
    each = torch.arange(count, device=images.device)[:, None, None, None]
    return padded[each, channels, rows, columns]


def mirror(images: Tensor) -> Tensor:
    """Mirror every second image, chosen at random."""
    chosen = torch.rand(len(images), 1, 1, 1).to(images.device) < 0.5
    return torch.where(chosen, images.flip(-1), images)


def cut_out(images: Tensor, size: int) -> Tensor:
    """Set a square of `size` pixels, somewhere inside each image, to the mean (arXiv 1708.04552).

    As in cifar10-fast the square lies wholly inside the image.
    """
    count, _, height, width = images.shape
    top = torch.randint(max(height - size, 0) + 1, (count, 1)).to(images.device)
    left = torch.randint(max(width - size, 0) + 1, (count, 1)).to(images.device)
    rows = torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device)
    in_rows = (rows >= top) & (rows < top + size)
    in_columns = (columns >= left) & (columns < left + size)
    return images.masked_fill((in_rows[:, :, None] & in_columns[:, None, :])[:, None], 0.0)
