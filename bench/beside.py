"""Writes next to nothing to a store, again and again, and notes what each took with its wait.

`python -m bench.beside URL` goes on until its input ends and then prints the milliseconds. It is a
process of its own, so that only the store is shared with what is measured beside it.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from supervisor.store import Ledger, open_store

PAUSE_S = 0.002


@contextmanager
def writing(url: str) -> Iterator[list[float]]:
    """Write during the block; the list is filled when it is over."""
    took_ms: list[float] = []
    command = [sys.executable, "-m", "bench.beside", url]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if writer.stdout is None or writer.stdout.readline() != "ready\n":
        raise RuntimeError(f"{command} did not start")
    try:
        yield took_ms
    finally:
        answer, _ = writer.communicate()
        took_ms += json.loads(answer)


def main() -> None:
    """Write until the input ends."""
    with closing(open_store(sys.argv[1], create=False)) as store:
        ledger = Ledger(store)
        took_ms = []
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            began = time.perf_counter()
            ledger.run(
                lambda tx: tx.note(None, None, reason="bench", text="beside", now=store.clock.now())
            )
            took_ms.append((time.perf_counter() - began) * 1000)
    print(json.dumps(took_ms))


if __name__ == "__main__":
    main()
