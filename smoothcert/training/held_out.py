"""Training inputs that are kept back, to fit an ensemble's weights on them (SWEEN, Liu et al. 2020, App. C.1).

Which they are does not depend on the seed, so that every member of an ensemble keeps back the same ones:

    0.04, 2000      a share or a number of the inputs, spread evenly: ⌊(i + ½)·N/k⌋ for i = 0 … k−1
    back.npz        those whose indices its array `index` holds

A checkpoint's config says which, by index and by a digest of them, so that they are known again.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.data import Inputs, read_arrays
from smoothcert.errors import DataError, OptionError

if TYPE_CHECKING:
    from smoothcert.data import Array

_MUST = "hold_out of training must be a share below 1, a number of inputs, or an .npz file of their indices"


def kept_back(training: Inputs, asked: str) -> Array:
    """The positions of the inputs to be kept back, rising; some must be left to train on."""
    found = _from_file(training, Path(asked)) if asked.endswith(".npz") else _spread(len(training), asked)
    if not 0 < len(found) < len(training):
        raise DataError(
            f"hold_out of training must keep back some of the {len(training)} inputs and leave some; got {len(found)}"
        )
    return found


def split(training: Inputs, asked: str) -> tuple[Inputs, dict[str, Any]]:
    """The inputs that are left to train on, and what config.json says of those kept back."""
    back = kept_back(training, asked)
    held = training.chosen(back)
    left = np.setdiff1d(np.arange(len(training)), back)
    record = {
        "asked": asked,
        "rule": "index of the file" if asked.endswith(".npz") else "spread evenly: floor((i + 1/2)·N/k)",
        "inputs": len(held),
        "of": len(training),
        "digest": held.listing_digest,
        "indices": " ".join(map(str, held.indices.tolist())),
    }
    return training.chosen(left), record


def _spread(count: int, asked: str) -> Array:
    if re.fullmatch(r"\d{1,18}", asked, re.ASCII):
        wanted = int(asked)
    else:
        try:
            share = float(asked)
        except ValueError as error:
            raise OptionError(f"{_MUST}; got '{asked}'") from error
        if not 0.0 < share < 1.0:
            raise OptionError(f"{_MUST}; got {asked}")
        wanted = max(1, round(share * count))
    if wanted >= count:
        raise DataError(f"hold_out of training must leave some of the {count} inputs to train on; got {asked}")
    return (2 * np.arange(wanted, dtype=np.int64) + 1) * count // max(1, 2 * wanted)


def _from_file(training: Inputs, path: Path) -> Array:
    (indices,) = read_arrays("hold_out", path.expanduser(), "index")
    if indices.ndim != 1 or indices.dtype.kind not in "iu" or len(np.unique(indices)) != len(indices):
        raise DataError(f"index of hold_out '{path}' must be whole numbers [N], none of them twice; got others")
    found = np.flatnonzero(np.isin(training.indices, indices))
    if len(found) != len(indices):
        raise DataError(f"index of hold_out '{path}' must be of training inputs; {len(indices) - len(found)} are none")
    return found.astype(np.int64)
