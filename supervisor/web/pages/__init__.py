"""The pages, one module for each room of the site.

Each module ends with its ROUTES; a page is added by a module and its name here.
"""

from __future__ import annotations

from types import ModuleType

from supervisor.web.pages import (
    access,
    alerts,
    audit,
    autopsies,
    autopsy,
    bulk,
    dead,
    nodes,
    overview,
    queues,
    settings,
    sign_in,
    task,
    tasks,
)

#: In the order in which the navigation shows them.
ROOMS: tuple[ModuleType, ...] = (
    sign_in,
    overview,
    tasks,
    task,
    bulk,
    dead,
    queues,
    nodes,
    autopsies,
    autopsy,
    alerts,
    audit,
    settings,
    access,
)
