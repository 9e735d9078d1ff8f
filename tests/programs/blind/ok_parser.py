"""DIAGNOSIS none.progressing|busy.python (control): a parser goes through JSON and CSV documents,
each a different one, a whole core.
"""

import csv
import io
import json

from _stage import ready


def make(n):
    return json.dumps(
        [{"id": n * 1000 + k, "name": f"n{k}", "tags": [k % 3, k % 5]} for k in range(400)]
    )


def parse(text):
    return [r for r in json.loads(text) if r["id"] % 2]


def to_csv(rows):
    out = io.StringIO()
    w = csv.DictWriter(out, ["id", "name", "tags"])
    w.writeheader()
    w.writerows(rows)
    return out.getvalue()


def check(text):
    return sum(int(r["id"]) for r in csv.DictReader(io.StringIO(text)))


ready()
n = 0
total = 0
while True:
    total += check(to_csv(parse(make(n))))
    n += 1
