"""Attempts that wait for the same: the newest bundles by their signature, for pages and API alike.

Invariant: groups are made of the newest bundles that there are, and say of how many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autopsy.signature import WaitSignature, wait_signature
from supervisor.store import AutopsyRecord, Reader, TaskLine
from supervisor.store.listing import Listing
from supervisor.store.view import AutopsyFilter

#: Bundles that groups are made of, and what one page of the store brings.
GROUPED_MOST, _AT_ONCE = 1000, 500

Row = tuple[AutopsyRecord, str | None]


@dataclass(frozen=True, slots=True)
class Group:
    """Bundles of one signature, newest first."""

    signature: WaitSignature
    rows: tuple[Row, ...]

    @property
    def newest(self) -> AutopsyRecord:
        """The bundle that was taken last."""
        return self.rows[0][0]

    @property
    def oldest(self) -> AutopsyRecord:
        """The bundle that was taken first."""
        return self.rows[-1][0]

    @property
    def types(self) -> Sequence[tuple[str | None, int]]:
        """The types of its tasks with their counts, most first; None of those that are gone."""
        return Counter(kind for _record, kind in self.rows).most_common()

    @property
    def task_ids(self) -> list[str]:
        """Its tasks, each once."""
        return list(dict.fromkeys(r.task_id for r, _kind in self.rows if r.task_id))


@dataclass(frozen=True, slots=True)
class Groups:
    """The largest first; made of `counted` bundles, not `is_all` where there are more."""

    groups: Sequence[Group]
    counted: int
    is_all: bool

    def of(self, key: str) -> Group | None:
        """Return the group of this key."""
        return next((one for one in self.groups if one.signature.key == key), None)


def grouped(reader: Reader, wanted: AutopsyFilter) -> Groups:
    """Put together the newest bundles of a filter; what has no diagnosis is in no group."""
    rows, is_all = _newest(reader, wanted)
    found: dict[WaitSignature, list[Row]] = {}
    for row in rows:
        signature = wait_signature(row[0].diagnosis_json)
        if signature is not None:
            found.setdefault(signature, []).append(row)
    made = [Group(signature, tuple(of)) for signature, of in found.items()]
    ordered = sorted(made, key=lambda one: (-len(one.rows), one.signature.key))
    return Groups(ordered, len(rows), is_all)


def tasks_of(reader: Reader, task_ids: Sequence[str]) -> list[TaskLine]:
    """Return the tasks that are in the store as they are now, in the order given."""
    found = {one.task_id: one for one in Listing(reader.store).of(task_ids)}
    return [found[task_id] for task_id in task_ids if task_id in found]


def _newest(reader: Reader, wanted: AutopsyFilter) -> tuple[list[Row], bool]:
    """Return the newest bundles of the filter, and whether these are all there are."""
    wanted = replace(wanted, before_id=None, limit=_AT_ONCE)
    rows: list[Row] = []
    while len(rows) < GROUPED_MOST:
        found = reader.find_autopsies(wanted)
        rows += found.autopsies
        if found.next_id is None:
            return rows, True
        if not found.autopsies:
            break
        wanted = replace(wanted, before_id=found.next_id)
    return rows, False
