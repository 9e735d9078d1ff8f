"""The cast of the demo: which tasks are submitted, what each is to show, and how each must end.

Pure data. The show submits it, the summary and the test compare with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from supervisor.model.states import State

OPERATOR = "demo-operator"
#: Cues: what the demo does to a task once it runs.
CANCEL, KILL = "cancel", "kill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One kind of task in the demo. `delay_s`: not before this long after the start."""

    name: str
    type: str
    shows: str
    ends: State
    params: tuple[Mapping[str, Any], ...]
    priority: int = 5
    delay_s: float = 0.0
    dedup_key: str | None = None
    cue: str | None = None
    #: Acceptable diagnoses of its autopsy; empty when it needs none.
    diagnoses: frozenset[str] = field(default_factory=frozenset)

    @property
    def tasks(self) -> int:
        """How many tasks come into being: submits with one dedup key make one."""
        return 1 if self.dedup_key else len(self.params)


#: In the order the page shows them. The stuck ones go first into the workers.
CAST: tuple[Part, ...] = (
    Part(
        name="quick", type="send_mail", shows="is done at once", ends=State.SUCCESS,
        params=tuple({"to": f"user{n}@example.org"} for n in range(8)),
    ),
    Part(
        name="progress", type="import_rows", shows="reports each step", ends=State.SUCCESS,
        params=({"rows": 60}, {"rows": 90}),
    ),
    Part(
        name="flaky", type="flaky_api", shows="fails once, works when retried",
        ends=State.SUCCESS,
        params=({"url": "https://example.org/a"}, {"url": "https://example.org/b"}),
    ),
    Part(
        name="slow", type="slow_report", shows="slow but advancing: left alone",
        ends=State.SUCCESS, params=({"pages": 12},), priority=8,
    ),
    Part(
        name="async", type="fetch_pages", shows="an async body", ends=State.SUCCESS,
        params=({"count": 20}, {"count": 50}),
    ),
    Part(
        name="parent", type="nightly_batch", shows="submits tasks of its own",
        ends=State.SUCCESS, params=({"customers": ["ada@example.org", "alan@example.org"]},),
    ),
    Part(
        name="dedup pair", type="import_rows", shows="submitted twice, exists once",
        ends=State.SUCCESS, params=({"rows": 10}, {"rows": 10}), dedup_key="import:2026-11",
    ),
    Part(
        name="scheduled", type="send_mail", shows="due 6 s after the start",
        ends=State.SUCCESS, params=({"to": "later@example.org"},), delay_s=6.0,
    ),
    Part(
        name="leaking", type="read_archives", shows="forgets to close 40 files",
        ends=State.SUCCESS, params=({"files": 40},),
    ),
    Part(
        name="daemons", type="start_daemons", shows="leaves 3 daemons behind",
        ends=State.SUCCESS, params=({"count": 3},),
    ),
    Part(
        name="wrong input", type="wrong_input", shows="raises what no retry cures",
        ends=State.FAILED, params=({"amount": "twelve"},),
    ),
    Part(
        name="killed worker", type="convert_image", shows="its worker gets a SIGKILL",
        ends=State.SUCCESS, params=({"name": "cat.png"},), priority=8, cue=KILL,
    ),
    Part(
        name="deadlocked", type="transfer", shows="two threads, two locks",
        ends=State.TIMEOUT, params=({"a": "account 1", "b": "account 2"},), priority=9,
        diagnoses=frozenset({"deadlock.in_process"}),
    ),
    Part(
        name="busy", type="count_forever", shows="loops, swallows every exception",
        ends=State.TIMEOUT, params=({},), priority=9,
        diagnoses=frozenset({"busy.python"}),
    ),
    Part(
        name="blocked", type="ask_ledger", shows="waits for a silent server",
        ends=State.TIMEOUT, params=({"rows": 100},), priority=9,
        diagnoses=frozenset({"blocked.external", "blocked.ipc"}),
    ),
    Part(
        name="canceled", type="render_video", shows="canceled, leaves when told",
        ends=State.CANCELED, params=({"frames": 1200},), priority=8, cue=CANCEL,
    ),
    Part(
        name="hopeless", type="ignore_everything", shows="canceled, does not listen",
        ends=State.CANCELED, params=({},), priority=9, cue=CANCEL,
        diagnoses=frozenset({"blocked.polling", "blocked.sleep"}),
    ),
)  # fmt: skip


def expected_counts() -> dict[State, int]:
    """Return how many tasks end in each state when all goes as it should."""
    counts = dict.fromkeys(State, 0)
    for part in CAST:
        counts[part.ends] += part.tasks
    counts[State.SUCCESS] += children()
    return counts


def children() -> int:
    """Return how many tasks are submitted by tasks."""
    return sum(
        len(params["customers"])
        for part in CAST
        for params in part.params
        if part.type == "nightly_batch"
    )
