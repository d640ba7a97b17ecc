"""What ends a part of first_light, unless it passes."""


class Failed(Exception):
    """A part failed."""


class NotPossible(Exception):
    """A part cannot be done here."""


class OutOfTime(Exception):
    """A part's time was over."""
