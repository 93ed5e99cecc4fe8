"""For those who add parts: classifiers whose truth is known, and checks of what every part must keep.

    from smoothcert.testing import check_noise, LinearClassifier
    check_noise(MyNoise(0.5))           # AssertionError, in one sentence, where the contract is broken

Nothing here needs pytest; smoothcert's own tests call the same functions.
"""

from smoothcert.testing.checks import check_error_rate, check_noise, check_part, check_procedure, check_sampling
from smoothcert.testing.fakes import BandClassifier, LinearClassifier, answer

__all__ = [
    "BandClassifier", "LinearClassifier", "answer", "check_error_rate", "check_noise", "check_part",
    "check_procedure", "check_sampling",
]  # fmt: skip
