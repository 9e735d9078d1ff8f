"""For tests, ours and yours: a clock moved by hand, scripted workers, scribe and bell in memory.

They stand behind the same ports as the real ones (`supervisor.node.port`), so the real arbiter can
live through a day of operation in less than a second. Nothing here touches a process or a file.
"""

from supervisor.testing.bell import MemoryBell, MemoryDoor, MemoryListener
from supervisor.testing.clock import START, ManualClock
from supervisor.testing.pool import Script, ScriptedPool
from supervisor.testing.scribe import MemoryScribe, MemoryTask

__all__ = [
    "START",
    "ManualClock",
    "MemoryBell",
    "MemoryDoor",
    "MemoryListener",
    "MemoryScribe",
    "MemoryTask",
    "Script",
    "ScriptedPool",
]
