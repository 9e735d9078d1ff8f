"""How soon a canceled task is canceled: one that listens, and one that never will."""

from __future__ import annotations

import statistics
import time

from bench import node
from bench.figure import Figure, at_most, quantile
from bench.place import Place
from supervisor.client import Client

GRACE_S, CAPTURE_S = 1.0, 2.0


def measure(place: Place, scale: float) -> list[Figure]:
    """From the call of cancel() to the row that reads CANCELED."""
    flags = [
        *("--cancel-grace", str(GRACE_S), "--autopsy-budget", str(CAPTURE_S)),
        *("--autopsy-dir", str(place.folder / "autopsies")),
    ]
    with node.ready(place, *flags) as (_, client, _url):
        obeyed = [_cancel_ms(client, place, "obey") for _ in range(max(5, int(50 * scale)))]
        defied = [_cancel_ms(client, place, "defy") for _ in range(max(1, int(5 * scale)))]
    return [
        at_most("cancel of a cooperative task, p50", statistics.median(obeyed), "ms", 100),
        at_most("cancel of a cooperative task, p95", quantile(obeyed, 0.95), "ms", 100),
        at_most(
            f"cancel of a hopeless task, grace {GRACE_S:g} s",
            max(defied),
            "ms",
            (GRACE_S + CAPTURE_S + 1) * 1000,
        ),
    ]


def _cancel_ms(client: Client, place: Place, type_name: str) -> float:
    (handle,) = client.submit([node.spec(type_name)])
    with place.database() as db:

        def row() -> tuple[str, object]:
            (found,) = db.rows(
                "SELECT t.state, a.started_at FROM tasks t LEFT JOIN attempts a USING (task_id) "
                "WHERE t.task_id = ?",
                handle.task_id,
            )
            return found[0], found[1]

        node.wait_until(lambda: row()[1] is not None)
        began = time.perf_counter()
        handle.cancel(by="bench", reason="measuring")
        node.wait_until(lambda: row()[0] == "CANCELED")
        return (time.perf_counter() - began) * 1000
