"""What is left of a process that is gone: its rings and its output, where somebody kept them open.

Light, since a bundle of last resort is made of this: no rule and no other collector is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from autopsy.collect import history, record
from autopsy.errors import RingUnreadable
from autopsy.memfd import Kept
from autopsy.section import Payload, Section, Skipped, Status


def kept_sections(kept: Kept) -> list[Section]:
    """Return one section for each thing that can be read at the paths that are given."""
    readers: tuple[tuple[str, str | None, Callable[[int], Payload]], ...] = (
        ("ring", kept.stack_ring, partial(_ring_in, begun_at=kept.begun_at)),
        ("growth", kept.stack_ring, partial(_growth_in, begun_at=kept.begun_at)),
        ("logs", kept.log_ring, partial(record.logs_in, begun_at=kept.begun_at)),
        ("output", kept.output, partial(record.output_in, start=kept.output_start)),
    )
    return [_section(name, path, read) for name, path, read in readers if path is not None]


def _section(name: str, path: str, read: Callable[[int], Payload]) -> Section:
    try:
        return Section(name, Status.OK, payload=read(record.open_kept(path)))
    except Skipped as exc:
        return Section(name, Status.SKIPPED, str(exc))
    except (OSError, RingUnreadable) as exc:
        return Section(name, Status.ERROR, str(exc))


def _ring_in(fd: int, begun_at: float) -> Payload:
    return history.as_stacks(history.history_in(fd, begun_at), is_alive=False)


def _growth_in(fd: int, begun_at: float) -> Payload:
    return history.as_growth(history.history_in(fd, begun_at))
