"""What the trainer tells its user in one line instead of a traceback."""


class TrainerError(Exception):
    """The run cannot start: `message` says what is wrong, `hint` what to do about it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint
