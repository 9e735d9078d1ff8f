"""DIAGNOSIS busy.python: a graph walk without a visited set goes round a cycle for ever; main joins
the thread.
"""

import threading

from _stage import ready

edges = {i: [(i + 1) % 9, (i * 3) % 9] for i in range(9)}


def reachable(start, goal):
    todo = [start]
    while todo:
        n = todo.pop()
        if n == goal:
            return True
        todo.append(edges[n][0])
    return False


t = threading.Thread(target=reachable, args=(0, 99), name="planner")
t.start()
ready()
t.join()
