"""While a network trains: the share of some inputs that is certified at one known radius, for few draws.

`certified_accuracy` is for any loop, `CertifiedAccuracyCallback` for PyTorch Lightning, `CertifiedAccuracy` for
torchmetrics; neither package is needed for importing this. `training/measure.py` has an estimate of its own for our
own loop: 100 draws at 5 % on the label itself, which certifies nothing, and needs that loop's settings and data.
"""

from smoothcert.callbacks.lightning_callback import CertifiedAccuracyCallback
from smoothcert.callbacks.metric import CertifiedAccuracy
from smoothcert.callbacks.question import CertifiedShare, certified_accuracy

__all__ = ["CertifiedAccuracy", "CertifiedAccuracyCallback", "CertifiedShare", "certified_accuracy"]
