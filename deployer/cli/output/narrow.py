"""Signs as words in ASCII, for a terminal or a pipe whose encoding does not have them."""

from __future__ import annotations

import codecs

NAME = "deployer-words"  # of the handler, as `errors=` of a stream takes it
UNKNOWN = "?"
WORDS = {
    "✓": "ok",
    "✗": "FAILED",
    "…": "...",
    "→": "->",
    "±": "+-",
    "─": "-",
    **dict.fromkeys("━╸╺", "="),
    "│": "|",
    **dict.fromkeys("├└╭╮╰╯┌┐┘┤┼", "+"),
}


def replace_signs(error: UnicodeError) -> tuple[str, int]:
    """Handle what a stream cannot encode: our signs become words, other letters a `?`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(WORDS.get(letter, UNKNOWN) for letter in lost), error.end


codecs.register_error(NAME, replace_signs)
