"""`supervisor nodes`: who runs on this store, and how long its lease still holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from supervisor.cli.call import Call, command, fields_of
from supervisor.cli.text import cell, columns
from supervisor.words.roll import Roll, is_silent, left_out, roll_call, stages
from supervisor.words.text import ago, span

if TYPE_CHECKING:
    from supervisor.store.view import NodeView

HEAD = (
    "NODE", "HOST", "PID", "VERSION", "UP", "STATE", "LEASE LEFT", "CLOCK", "RUNNING", "TYPES"
)  # fmt: skip


@command(example="supervisor nodes --json")
@click.option("--all", "every", is_flag=True, help="Also nodes that have ended, the latest 100.")
def nodes(call: Call, every: bool) -> None:
    """List the nodes of the store with their leases.

    CLOCK is how far the clock of the host is ahead of the store's. A node whose lease is over has
    ended what it ran; another node judges its tasks.
    """
    reader = call.client().reader
    now = reader.store.clock.now()
    roll = roll_call(reader)
    listed = [node for node in roll.every if every or node.ended_at is None]
    more = left_out(reader.store, roll) if every else 0
    said = stages(roll, call.client().vitals, now)

    def lines() -> Iterator[str]:
        if listed:
            yield from columns(
                HEAD, [_row(node, roll, now, said.get(node.node_id)) for node in listed]
            )
        if more:
            yield f"{more} more that ended are not listed"
        if not roll.running:
            yield "no node runs: start one with `supervisor run`"

    document = [
        {
            **fields_of(node),
            "state": state(node, roll),
            "stage": said.get(node.node_id),
            "here": node.node_id in roll.here,
        }
        for node in listed
    ]
    call.answer({"nodes": document, "left_out": more, "at": now}, lines)


def state(node: NodeView, roll: Roll) -> str:
    """Return one word, or two, for how a node is: running, lease over, gone or ended."""
    if node.ended_at is not None:
        return "ended"
    if node.node_id not in roll.gone:
        return "running"
    return "lease over" if is_silent(node) else "gone"


def _row(node: NodeView, roll: Roll, now: datetime, stage: str | None) -> Sequence[str]:
    word = state(node, roll)
    if word == "running":
        word = cell(stage or word)
    left_s = node.lease_left_s
    if word == "lease over" and left_s is not None:
        word = f"lease over since {span(-left_s)}"
    elif word == "ended":
        word = f"ended {ago(node.ended_at, now)} ago: {cell(node.note, 40)}"
    holds = node.ended_at is None and left_s is not None and left_s >= 0
    return (
        cell(node.node_id),
        cell(node.node_name, 30),
        str(node.pid),
        cell(node.version),
        "-"
        if word.startswith(("gone", "lease over"))
        else ago(node.started_at, node.ended_at or now),
        word,
        span(left_s) if holds and left_s is not None else "-",
        "-" if left_s is None else f"{node.skew_s:+.3f} s",
        str(node.running),
        cell(", ".join(node.types)),
    )
