"""What the first page looks at, put together once, for pages and API alike.

Invariant: an alert that is not repeated any more is not told to fire; what was counted before is
put in as it was counted.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from supervisor.monitoring.alertmanager import PAGES_SILENT_S
from supervisor.store import Reader
from supervisor.store.alerts import AlertBook, AlertView
from supervisor.store.roster import Roster
from supervisor.web import census
from supervisor.web.attention import Scene
from supervisor.web.census import Endings, Live, States
from supervisor.web.visit import Visit
from supervisor.web.watch import watch
from supervisor.words.waiting import known_types

#: Fires always, to show that the way from Prometheus to here is open.
WATCHDOG = "Watchdog"


def scene_of(visit: Visit, states: States, endings: Endings) -> Scene:
    """Look at all that may need a person. Raises: StoreUnavailable."""
    live = census.live(visit)
    return replace(
        visit.see("overview", census.FRESH_S, lambda reader: _scene(reader, live)),
        ended=None if endings.by_type is None else endings.by_type[0],
        by_state=states.by_state,
    )


def _scene(reader: Reader, live: Live) -> Scene:
    store, now, roll = reader.store, live.at, live.roll
    return Scene(
        now=now,
        levels=live.levels,
        pauses=reader.every_pause(),
        lost=live.lost,
        ended=None,
        roll=roll,
        survey=watch().surveyor.survey(store, roll, now),
        at_work=Roster(store).at_work(),
        known=known_types(reader, roll),
        by_state={},
        firing=_firing(AlertBook(store), now),
    )


def _firing(book: AlertBook, now: datetime) -> list[AlertView]:
    """Return the alerts that fire and are still told, without that which always fires."""
    since = now - timedelta(seconds=PAGES_SILENT_S)
    return [one for one in book.firing() if one.name != WATCHDOG and one.received_at > since]
