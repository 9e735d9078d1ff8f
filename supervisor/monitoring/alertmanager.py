"""Who is told of an alert, how soon and how often, and what silences what: Alertmanager's file.

Secret kept here: its format. A page and an SMS go to web hooks, since no gateway can be assumed:
`supervisor rules export --receiver sms=URL` puts yours in, with a token that Alertmanager reads
from a file (`--token-file`). The pages of `supervisor web` are told everything, if they are named.
There is no receiver for an act that the product cannot do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from supervisor.errors import ConfigError
from supervisor.monitoring.rule import to_yaml

#: What comes at a receiver; each is one web hook.
RECEIVERS: Mapping[str, str] = MappingProxyType(
    {
        "pager": "wakes the person on call",
        "sms": "sends a text message, beside the page",
        "chat": "is read by day",
        "product": "the owner of the product, not of the system",
        "deadman": "alarms when the Watchdog has not come for five minutes; runs elsewhere",
    }
)
#: Shown in Alertmanager and used to silence others; nobody is told.
NOBODY = "nobody"
#: The pages, which show all that fires and has fired.
PAGES = "pages"
PAGES_PATH = "/api/v1/alertmanager"
#: What the pages have not heard again for so long fires no more for all that they know: the route
#: below repeats every 5 minutes, looked at once a minute, and a minute is for what is slow.
PAGES_SILENT_S = 420.0
_DEFAULT_BASE = "http://127.0.0.1:9095"

#: Alerts of one subject come as one notification.
GROUP_BY = ("alertname", "job", "queue", "type", "service", "instance")
#: What a paused queue is expected to do.
_OF_A_PAUSE = "TaskQueueGrowing|TaskQueueWaitLong|TaskQueueNotDraining"
_NO_NODE = "SupervisorDown|SupervisorLoopStalled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receivers:
    """Where each receiver is; `token_file` is read by Alertmanager for all but chat.

    `pages` is the base of `supervisor web`, told with the token in `pages_token_file`; "" for none.
    """

    urls: Mapping[str, str] = field(default_factory=dict)
    token_file: str = ""
    pages: str = ""
    pages_token_file: str = ""

    def url(self, name: str) -> str:
        """Return the address of a receiver."""
        return self.urls.get(name, f"{_DEFAULT_BASE}/{name}")

    def checked(self) -> Receivers:
        """Return itself. Raises ConfigError for a receiver that there is not."""
        for name in self.urls:
            if name not in RECEIVERS:
                raise ConfigError(
                    f"there is no receiver {name}", remedy="One of: " + ", ".join(RECEIVERS)
                )
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One branch: what it takes, to whom, and when it is said first, again, and repeated."""

    match: str
    to: str
    wait: str
    again: str
    repeat: str
    goes_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Inhibition:
    """While `source` fires, `target` is told to nobody, where `equal` labels agree."""

    source: str
    target: str
    equal: tuple[str, ...]


#: The first that matches, and further ones after those that go on.
ROUTES = (
    Route(match='alertname="Watchdog"', to="deadman", wait="0s", again="1m", repeat="1m"),
    Route(match='notify="sms"', to="sms", wait="0s", again="5m", repeat="1h", goes_on=True),
    Route(match='severity="critical"', to="pager", wait="10s", again="5m", repeat="1h"),
    Route(match='route="product"', to="product", wait="1m", again="10m", repeat="24h"),
    Route(match='severity="info"', to=NOBODY, wait="30s", again="5m", repeat="24h"),
    Route(match='severity=~"warning|none"', to="chat", wait="30s", again="5m", repeat="4h"),
)

#: Before all others, where the pages are named.
_TO_PAGES = Route(match='alertname!=""', to=PAGES, wait="1s", again="1m", repeat="5m", goes_on=True)

#: What comes before, and what it comes before: once that fires, the hint says nothing new.
_EARLY = (
    ("TaskFailureRateRising", "TaskFailureRateHigh", ("type",)),
    ("TaskDurationRising", "TaskRunningNearTimeout", ("type",)),
    ("TaskQueueWaitRising", "TaskQueueWaitLong", ("queue",)),
    ("WorkerMemoryRising", "WorkerMemoryHigh", ("instance", "slot")),
    ("WorkerFdsRising", "WorkerFdsHigh", ("instance", "slot")),
    ("ZombieShareRising", "ZombieShareHigh", ()),
    ("DependencySlowing", "DependencySlow", ("service",)),
    ("DependencyErrorsRising", "DependencyErrorsHigh", ("service",)),
)

INHIBITIONS = (
    *(
        Inhibition(
            source=f'alertname="{hard}"',
            target=f'alertname="{early}"',
            equal=("job", *labels),
        )
        for early, hard, labels in _EARLY
    ),
    # A node that is away says nothing true about itself; a whole job that is away, about nothing.
    Inhibition(
        source='alertname="SupervisorAbsent"',
        target='alertname!~"Watchdog|SupervisorAbsent"',
        equal=("job",),
    ),
    Inhibition(
        source=f'alertname=~"{_NO_NODE}"',
        target=f'alertname!~"{_NO_NODE}|Watchdog", instance!=""',
        equal=("job", "instance"),
    ),
    Inhibition(
        source='alertname="ZombieShareHigh"', target='alertname="ZombieTasks"', equal=("job",)
    ),
    Inhibition(
        source='alertname="QueuePaused"',
        target=f'alertname=~"{_OF_A_PAUSE}"',
        equal=("job", "queue"),
    ),
    Inhibition(
        source='alertname="TaskQueueNotDraining"',
        target='alertname=~"TaskQueueGrowing|TaskQueueWaitLong"',
        equal=("job", "queue"),
    ),
    Inhibition(
        source='alertname="TaskStuckPastTimeout"',
        target='alertname=~"TaskRunningNearTimeout|TaskCloseToTimeout|TaskRunsUnusuallyLong"',
        equal=("job", "type"),
    ),
    Inhibition(
        source='alertname="PoolHalted"',
        target='alertname=~"WorkerSurvivalLow|WorkerCrashLoop|WorkerSpawnFailing"',
        equal=("job", "instance"),
    ),
    Inhibition(
        source='alertname="TaskStoreDown"',
        target='alertname=~"TaskStoreErrors|TaskStoreSlow|CollectorFailing|SupervisorFenced"',
        equal=("job", "instance"),
    ),
)


def document(receivers: Receivers) -> dict[str, Any]:
    """Return the content of alertmanager.yml."""
    routes = (_TO_PAGES, *ROUTES) if receivers.pages else ROUTES
    pages = [_pages(receivers)] if receivers.pages else []
    return {
        "route": {
            # What no branch takes is told to people: silence would hide a new severity.
            "receiver": "chat",
            "group_by": list(GROUP_BY),
            "routes": [_route(route) for route in routes],
        },
        "inhibit_rules": [
            {
                "source_matchers": _matchers(rule.source),
                "target_matchers": _matchers(rule.target),
                "equal": list(rule.equal),
            }
            for rule in INHIBITIONS
        ],
        "receivers": [
            {"name": NOBODY},
            *pages,
            *(_receiver(name, receivers) for name in RECEIVERS),
        ],
    }


def render(receivers: Receivers) -> str:
    """Return the text of alertmanager.yml."""
    notice = (
        "# Generated from supervisor/monitoring: `supervisor rules export` writes it anew.\n"
        "# The receivers are web hooks; put yours in with --receiver NAME=URL:\n"
        + "".join(f"#   {name}: {prose}\n" for name, prose in RECEIVERS.items())
    )
    return to_yaml(document(receivers.checked()), notice)


def _route(route: Route) -> dict[str, Any]:
    return {
        "matchers": _matchers(route.match),
        "receiver": route.to,
        "group_wait": route.wait,
        "group_interval": route.again,
        "repeat_interval": route.repeat,
        **({"continue": True} if route.goes_on else {}),
    }


def _matchers(text: str) -> list[str]:
    return text.split(", ")


def _receiver(name: str, receivers: Receivers) -> dict[str, Any]:
    hook: dict[str, Any] = {"url": receivers.url(name), "send_resolved": name != "deadman"}
    if receivers.token_file and name != "chat":
        hook["http_config"] = _bearer(receivers.token_file)
    return {"name": name, "webhook_configs": [hook]}


def _pages(receivers: Receivers) -> dict[str, Any]:
    hook = {
        "url": f"{receivers.pages}{PAGES_PATH}",
        "send_resolved": True,
        "http_config": _bearer(receivers.pages_token_file),
    }
    return {"name": PAGES, "webhook_configs": [hook]}


def _bearer(file: str) -> dict[str, Any]:
    return {"authorization": {"type": "Bearer", "credentials_file": file}}
