"""DIAGNOSIS busy.python: a link walk without a visited set goes round a cyclic graph for ever,
across several functions.
"""

from collections import deque

from _stage import ready

GRAPH = {f"/p{i}": [f"/p{(i * 7 + 1) % 50}", f"/p{(i * 3 + 2) % 50}"] for i in range(50)}


def normalise(url):
    return url.rstrip("/") or "/"


def links(url):
    return [normalise(u) for u in GRAPH.get(url, ())]


def score(url):
    return sum(ord(c) for c in url) % 97


def crawl(start):
    todo, best = deque([start]), 0
    while todo:
        url = todo.popleft()
        best = max(best, score(url))
        for nxt in links(url):
            if len(todo) < 100:
                todo.append(nxt)
    return best


ready()
crawl("/p0")
