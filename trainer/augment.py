"""Random changes of a batch of images (N, C, H, W), made on their device without a Python loop.

What is random comes in as a number for each image (N): a batch waits for no generator.
"""

import torch
from torch import Tensor


def list_windows(images: Tensor, margin: int) -> Tensor:
    """Return every window (N, C, down, right, H, W) of the images with a reflected margin.

    A view of the padded images, which is all the memory that it takes.
    """
    height, width = images.shape[-2:]
    rows, columns = (reflect(size, margin).to(images.device) for size in (height, width))
    padded = images.index_select(2, rows).index_select(3, columns)
    padded = padded.contiguous(memory_format=torch.channels_last)
    return padded.unfold(2, height, 1).unfold(3, width, 1)


def reflect(size: int, margin: int) -> Tensor:
    """Return which row stands where in an image with `margin` rows of its reflection around it."""
    places = torch.arange(-margin, size + margin).abs()
    return torch.where(places < size, places, 2 * (size - 1) - places)


def mirror(images: Tensor, chosen: Tensor) -> Tensor:
    """Mirror the images that are chosen."""
    return torch.where(chosen[:, None, None, None], images.flip(-1), images)


def cut_out(images: Tensor, top: Tensor, left: Tensor, size: int) -> Tensor:
    """Set a square of `size` pixels in each image to the mean, which is 0 (arXiv 1708.04552)."""
    height, width = images.shape[-2:]
    rows = torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device)
    in_rows = (rows >= top[:, None]) & (rows < top[:, None] + size)
    in_columns = (columns >= left[:, None]) & (columns < left[:, None] + size)
    kept = ~(in_rows[:, :, None] & in_columns[:, None, :])
    return images * kept[:, None]
