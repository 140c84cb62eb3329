"""The types of flags: each reads a text as W&B's agent writes it, or says what is wrong with it."""

import argparse


def boolean(text: str) -> bool:
    """Read a boolean; `type=bool` would take the text "False" for true."""
    known = {
        "true": True,
        "on": True,
        "yes": True,
        "1": True,
        "false": False,
        "off": False,
        "no": False,
        "0": False,
    }
    if text.lower() not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")
    return known[text.lower()]


def whole(text: str) -> int:
    """Read a whole number from zero up; `64.0` counts, since W&B's q_uniform writes it so."""
    number = non_negative(text)
    if not number.is_integer():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(number)


def positive(text: str) -> int:
    """Read a whole number from one up."""
    number = whole(text)
    if number == 0:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def non_negative(text: str) -> float:
    """Read a finite number from zero up."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a finite number from 0 up")
    return number


def fraction(text: str) -> float:
    """Read a number from 0 up to, but not including, 1."""
    number = non_negative(text)
    if number >= 1:
        raise argparse.ArgumentTypeError(f"{text} is not below 1")
    return number
