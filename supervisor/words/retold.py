"""Sentences that were written down in English, said in the tongue of whoever reads them.

What a node writes into a row, and what the store refuses, cannot know its readers. Secret kept
here: the shapes of such sentences. What has none of them, as foreign text has, is left as it is.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from supervisor.words.tongue import say

#: Each as its writer has it (a test looks), the longer before those that they begin like. A value
#: may be such a sentence itself.
SHAPES = (
    # how a process ended, and what was wrong before
    "exited with code %(code)s",
    "killed by signal %(signal)s",
    "the worker was %(how)s, not by the node; %(counter)s",
    "the worker was %(how)s by the kernel's OOM killer: %(counter)s",
    "the OOM killer's counter %(how)s",
    "rose",
    "did not rise",
    "%(what)s (capture %(capture)s s, kill %(kill)s s)",
    "ran past its time limit",
    "ran past its time limit of %(limit)s s",
    "stopped by its soft time limit at %(place)s",
    "stopped by its soft time limit of %(limit)s s at %(place)s",
    "asked to stop and did not within the grace",
    "process is stopped; %(why)s",
    "no heartbeat for %(silent)s s (limit %(limit)s s)",
    "no progress for %(idle)s s (limit %(limit)s s)",
    "a full core used for %(span)s s",
    "uses %(rss)s bytes of memory, the limit is %(limit)s",
    "observer unreliable (%(doubt)s); held: %(code)s, %(why)s",
    "left at %(place)s",
    "left behind: %(what)s",
    "its worker did not read it",
    "%(verdict)s → %(act)s: %(why)s",
    "%(status)s: %(cause)s (confidence %(confidence)s)",
    "%(status)s: %(cause)s (confidence %(confidence)s); bundle %(bundle)s",
    # what several wait for
    "waits for the lock %(name)s",
    "waits for the key %(name)s",
    "waits for the file %(name)s",
    "waits for the statement %(name)s",
    "waits for %(name)s in the database",
    "waits for the peer %(name)s",
    "waits for the child %(name)s",
    # the steps of a stop
    "told to the worker",
    "the body has seen the %(what)s",
    "%(what)s: evidence, then SIGKILL of the whole tree",
    "the grace of %(grace)s s is used up",
    "the body left",
    "the body had not begun",
    "its process was ended",
    "nothing of the attempt runs any more, %(latency)s s after the node heard",
    "too late, finished at %(at)s",
    # what a node answers
    "failed: %(why)s",
    "not taken: %(why)s",
    "not done: this version of the node knows no such order",
    "not done: it is stopping already: %(why)s",
    "not done: it is stopping: %(why)s",
    "its first line has not run yet",
    "evidence is being taken before its kill",
    "attempt %(attempt)s does not run here any more",
    "it takes no more tasks already: %(why)s",
    "it takes no more tasks; %(running)s run to their end",
    "it was not told to take no more tasks",
    "it takes tasks again",
    "it is stopping already: %(why)s",
    "it stops; %(running)s running may go on for up to %(grace)s s",
    "asked by %(who)s: %(why)s",
    # what became of an act
    "canceled",
    "requested",
    "already requested",
    "already ended",
    "failed",
    "rerun",
    "not found",
    "not rerunnable",
    "dedup key taken",
    "not running",
    "changed meanwhile",
    "no task has this id",
    "it was %(before)s when you looked and is %(now)s now",
    "it waits; cancel it instead",
    "it is %(state)s; only FAILED and TIMEOUT can run again",
    "%(holder)s holds its dedup key",
    "%(kind)s was requested before",
    "no node runs: it takes effect when one starts",
    # what holds where nothing is set
    "number of CPUs",
    "host name",
    "supervisor.db in the user's state directory",
    "%(what)s beside the store's file, or in the user's state directory",
    # what is refused, and what to do then
    "the %(name)s is missing",
    "Say who asks and why: both stand in the audit trail.",
    "the %(name)s holds %(what)s",
    "a NUL character",
    "a lone surrogate",
    "Leave it out.",
    "there is no priority %(priority)s",
    "Priorities go from 0 to 9.",
    "%(what)s was paused anew by %(who)s at %(at)s: %(why)s",
    "Look whether that pause is to end too.",
    "%(task)s is %(state)s: nothing of it runs",
    "Evidence is taken of what runs; its bundles, if it has any, stay.",
    "attempt %(attempt)s of %(task)s is over: attempt %(running)s runs now",
    "Look at the task again, then ask about the attempt that runs.",
    "no node %(node)s",
    "node %(node)s has ended",
    "%(who)s asked node %(node)s to %(what)s at %(at)s",
    "Look at the node again once it has answered.",
    "%(given)s is the beginning of several tasks: %(found)s …",
    "Give more digits of the id.",
    "it has less than %(least)s characters",
    "it has more than %(most)s characters",
)
_VALUE = re.compile(r"%\\\((\w+)\\\)s")


def retold(text: str) -> str:
    """Return a sentence of ours in the tongue of the reader."""
    for template, pattern in _patterns().items():
        if found := pattern.fullmatch(text):
            values = {name: retold(value) for name, value in found.groupdict().items()}
            return say(template, **values)
    return text


@functools.cache
def _patterns() -> Mapping[str, re.Pattern[str]]:
    return {
        template: re.compile(_VALUE.sub(r"(?P<\1>.+?)", re.escape(template))) for template in SHAPES
    }
