"""DIAGNOSIS blocked.child_process: ProcessPoolExecutor: future.result() while the worker process
sleeps in the job for ever.
"""

import multiprocessing as mp
import time
from concurrent.futures import ProcessPoolExecutor

from _stage import die_with_parent, ready


def fit(model):
    time.sleep(0 if model == "linear" else 1e6)
    return model


with ProcessPoolExecutor(2, mp_context=mp.get_context("fork"), initializer=die_with_parent) as ex:
    print(ex.submit(fit, "linear").result())
    hard = ex.submit(fit, "forest")
    time.sleep(0.4)
    ready()
    print(hard.result())
