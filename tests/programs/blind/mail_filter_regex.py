"""DIAGNOSIS busy.native_gil: a filter rule backtracks exponentially in re.search on one long
subject, in a pool thread; main waits for it.
"""

import re
from concurrent.futures import ThreadPoolExecutor

from _stage import ready

RULES = [re.compile(r"^(\w+\s?)*$"), re.compile(r"(x+x+)+y")]


def classify(subject):
    return [bool(r.search(subject)) for r in RULES]


with ThreadPoolExecutor(2) as pool:
    ready()
    f = pool.submit(classify, "aaaa bbbb cccc dddd eeee ffff gggg hhhh iiii jjjj kkkk llll mmmm!")
    f.result()
