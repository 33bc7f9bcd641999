"""What can go wrong, in few words: bad input, a promise that cannot be kept, and more shown than usual."""


class InputError(ValueError):
    """Something given to us cannot be used; the message says what, where and what to do."""


class InputTypeError(InputError, TypeError):
    """What was given is of a type that cannot be used."""


class AlteredError(InputError):
    """A file is well formed, but it is not what was written: its digest does not match."""


class StoreError(InputError):
    """Nothing can be kept now, such as on a full disk: what was asked has not happened, and may be asked again."""


class NotCalibratedError(InputError, AttributeError):
    """There is no promise yet; what it would be is no attribute either."""


class InfeasibleWarning(UserWarning):
    """There are too few scores for the promise, so every label is in every set."""


class ClassCountsWarning(UserWarning):
    """What is about to be sent shows how many rows of each class a site has."""


class HeavySiteWarning(UserWarning):
    """A site outweighs the others because of the number of scores that it claims."""


class VersionWarning(UserWarning):
    """Some summaries say less of their scores than others do."""
