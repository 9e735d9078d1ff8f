"""How often somebody may try a password, and how fast a program may ask.

Secret kept here: the counts. A try is counted before the password is looked at and forgotten when
it was right, so that many at once count as many. Each process counts for itself, and from nothing
when it starts. Safe to share between threads.
"""

from __future__ import annotations

import ipaddress
import threading
from collections import deque
from collections.abc import Mapping

from supervisor.clock import Clock

WINDOW_S = 300.0
#: Wrong tries in the window: of one name from one address, from one address, of one name.
PAIR_MAX, ADDRESS_MAX, NAME_MAX = 5, 20, 50
#: Keys that are remembered; those used longest ago are forgotten first.
KEYS_MAX = 10_000
#: Characters of a name or address that tell it from others: what is sent may be a whole form.
KEY_LENGTH = 100

Key = tuple[str, ...]


def stranger(address: str) -> str:
    """Return what addresses have in common that one host may have: of IPv6 the network of 64."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address[:KEY_LENGTH]
    if found.version == 4:
        return str(found)
    inner = found.ipv4_mapped
    return str(ipaddress.ip_network((found, 64), strict=False) if inner is None else inner)


class Pace:
    """Lets each asker make `per_s` requests in a second on average, twice as many at once."""

    def __init__(self, clock: Clock, per_s: float) -> None:
        self._clock = clock
        self._per_s = per_s
        self._most = max(1.0, 2 * per_s)
        self._left: dict[str, tuple[float, float]] = {}
        self._turn = threading.Lock()

    def take(self, asker: str) -> float:
        """Count a request; return 0, or the seconds after which the next one may be made."""
        with self._turn:
            now = self._clock.mono()
            left, at = self._left.pop(asker, (self._most, now))
            left = min(self._most, left + (now - at) * self._per_s)
            is_free = left >= 1.0
            self._left[asker] = (left - 1.0 if is_free else left, now)  # it asked last
            while len(self._left) > KEYS_MAX:
                del self._left[next(iter(self._left))]
            return 0.0 if is_free else (1.0 - left) / self._per_s


class Limiter:
    """Counts tries by name and address."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tries: dict[Key, deque[float]] = {}
        self._turn = threading.Lock()

    def take(self, name: str, address: str) -> float:
        """Count a try; return 0, or the seconds to wait when it may not be made."""
        with self._turn:
            now = self._clock.mono()
            keys = _keys(name, address)
            wait_s = max(self._wait(key, most, now) for key, most in keys.items())
            if wait_s == 0.0:
                for key in keys:
                    self._count(key, now)
            return wait_s

    def give_back(self, name: str, address: str) -> None:
        """Count one try less, it was right: of several at once the latest, whoever made it."""
        with self._turn:
            for key in _keys(name, address):
                if self._tries.get(key):
                    self._tries[key].pop()

    def _wait(self, key: Key, most: int, now: float) -> float:
        tries = self._tries.get(key)
        if tries is None:
            return 0.0
        while tries and tries[0] <= now - WINDOW_S:
            tries.popleft()
        return tries[0] + WINDOW_S - now if len(tries) >= most else 0.0

    def _count(self, key: Key, now: float) -> None:
        tries = self._tries.pop(key, None) or deque()
        tries.append(now)
        self._tries[key] = tries  # at the end: it was used last
        while len(self._tries) > KEYS_MAX:
            del self._tries[next(iter(self._tries))]


def _keys(name: str, address: str) -> Mapping[Key, int]:
    folded = name[:KEY_LENGTH].casefold()
    address = stranger(address)
    return {
        ("pair", folded, address): PAIR_MAX,
        ("address", address): ADDRESS_MAX,
        ("name", folded): NAME_MAX,
    }
