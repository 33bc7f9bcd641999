"""Sums of rows leave BLAS's helper threads alone: they would go on spinning beside the threads that share the work."""

import os
import subprocess
import sys

PROGRAM = """
import time
import numpy as np
from fedconformal._base.arrays import row_sums

matrices = [np.random.default_rng(0).random((8_000_000 // classes, classes)) for classes in (2, 20, 400, 600)]
before = time.process_time() - time.thread_time()
for matrix in matrices * 10:
    row_sums(matrix)
print(time.process_time() - time.thread_time() - before)
"""


def test_other_threads_do_nothing() -> None:
    two = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=os.environ | two, capture_output=True, check=True)
    assert float(done.stdout) < 0.01  # seconds; a product with ones takes ten times as long in its helper thread
