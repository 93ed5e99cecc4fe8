"""Processes made to be killed: all are forked from one server, which has imported what takes seconds to import.

There is one such server in a process, so its list is here and not in the tests.
"""

from __future__ import annotations

import multiprocessing

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(
    ["torch", "scipy.special", "scipy.spatial", "smoothcert.memory", "smoothcert.runs.certify", "small_run"]
)
