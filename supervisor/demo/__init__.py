"""`supervisor demo`: the product at work on tasks that go well and on tasks that go wrong.

Light on purpose: the zygote imports `supervisor.demo.tasks` through this package, so everything
else is loaded only when a demo is really run. Called by the command line only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from supervisor.settings import Settings


def run_demo(for_s: float | None, as_json: bool, settings: Settings) -> int:
    """Run the demo and return the exit code; it ends after `for_s` seconds or by Ctrl-C.

    Of `settings` only what was given by flag counts: a demo has nothing to do with the store and
    the limits of the real installation around it.
    """
    from supervisor.demo.show import Show

    return Show(for_s, as_json=as_json, settings=settings).run()


def run_live(for_s: float | None, as_json: bool, settings: Settings) -> int:
    """Run the demo that keeps working and return the exit code; the rest as for `run_demo`."""
    from supervisor.demo.live import Live

    return Live(for_s, as_json=as_json, settings=settings).run()
