"""Labels for a selection network (ACES: Müller et al. 2021; Horváth et al. 2022, App. D.3.2).

The network is to tell, from one noisy copy, the inputs that the certified network is right about from those that it
should leave to the core network: label 1 where its share of right answers under noise, n_y/n, is above η. A file of
`index` and `label` carries such labels to `smoothcert train --labels`.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.data import Inputs, read_arrays
from smoothcert.errors import DataError, OptionError
from smoothcert.files import write_whole

if TYPE_CHECKING:
    from smoothcert.data import Array

MOST_CLASSES = 2**20  # a label beyond would make a network that no memory holds


def selection_labels(right: Array, draws: int, eta: float) -> Array:
    """[n_y/n > η] as int64 [N], from the votes right [N] of each input's own class among so many draws."""
    if not 0.0 <= eta < 1.0:
        raise OptionError(f"eta of the selection labels must be in [0, 1); got {eta:g}")
    # A quotient is rounded as the written number is, so 950 of 1000 is not above 0.95; a product need not be.
    labels = (np.asarray(right) / draws > eta).astype(np.int64)
    if len(np.unique(labels)) < 2:
        least, most = np.min(right) / draws, np.max(right) / draws
        raise DataError(
            f"selection labels must be 0 for some inputs and 1 for others; got all {labels[0]} at eta {eta:g} "
            f"(right answers under noise: {least:g} to {most:g} of an input's draws)"
        )
    return labels


def branch_labels(gains: Array) -> tuple[Array, Array]:
    """Which inputs have a best branch, and it, from radius·[correct] as [branches, N]; of equal ones the first.

    Inputs that no branch certifies rightly teach nothing and are left out.
    """
    kept = np.flatnonzero(gains.max(axis=0) > 0)
    labels = gains[:, kept].argmax(axis=0).astype(np.int64)
    best = np.bincount(labels, minlength=len(gains))
    if (best == 0).any():
        raise DataError(
            f"every branch must be the best one for some inputs; branch {int(best.argmin())} is for none "
            f"(best for {', '.join(map(str, best))} inputs, branch by branch)"
        )
    return kept, labels


def write_labels(path: Path, indices: Array, labels: Array, **origin: str | float) -> None:
    """The .npz file of `index` and `label` that `smoothcert train --labels` reads, and where it came from."""
    content = io.BytesIO()
    np.savez(content, index=indices, label=labels, origin=np.array(json.dumps(origin)))
    write_whole(path, content.getvalue())


def relabelled(training: Inputs, path: Path) -> Inputs:
    """Only the inputs that such a file names, with its labels: what a selection network learns."""
    indices, labels = read_arrays("labels", path, "index", "label")
    for name, array in (("index", indices), ("label", labels)):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            got = f"{array.dtype} {list(array.shape)}"
            raise DataError(f"{name} of labels '{path}' must be whole numbers [N]; got {got}")
    if len(indices) != len(labels) or len(indices) == 0 or labels.min() < 0:
        raise DataError(f"labels in '{path}' must be one number of at least 0 an index; got {len(indices)} indices")
    if int(labels.max()) >= MOST_CLASSES:
        raise DataError(f"labels in '{path}' must be below {MOST_CLASSES}; got {labels.max()}")
    if indices.min() < 0 or indices.max() >= len(training):
        raise DataError(f"indices in '{path}' must be below {len(training)}, the training inputs; got {indices.max()}")
    return training.chosen(indices.astype(np.int64), labels.astype(np.int64))
