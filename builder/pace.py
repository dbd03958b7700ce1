"""How far work is that was done before: by the parts that are done, and by how long each took then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping


class Pace:
    """Follows the parts of some work by their names. `before` has the seconds that each took the last time.

    Parts may run side by side. `clock` counts seconds.
    """

    def __init__(self, before: Mapping[str, float], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._before = dict(before)
        self._clock = clock
        self._running: dict[str, float] = {}
        self._took: dict[str, float] = {}
        self._kept: set[str] = set()
        self._lock = threading.Lock()

    def begin(self, part: str) -> None:
        """Note that a part is under way."""
        with self._lock:
            self._running[part] = self._clock()

    def end(self, part: str, seconds: float | None = None) -> None:
        """Note that a part is done, and in how many seconds; by default those since it was begun."""
        with self._lock:
            now = self._clock()
            begun = self._running.pop(part, now)
            self._took[part] = now - begun if seconds is None else seconds

    def skip(self, part: str) -> None:
        """Note that a part needs not be done this time."""
        with self._lock:
            self._running.pop(part, None)
            self._kept.add(part)

    @property
    def share(self) -> float | None:
        """How much of the time is over, from 0 to 1; None where nobody can know how long something takes."""
        with self._lock:
            if not self._before or not self._running.keys() <= self._before.keys():
                return None
            over = self._kept | self._took.keys()
            rest = {part: took for part, took in self._before.items() if part not in over}
            now = self._clock()
            under_way = sum(min(now - begun, rest.get(part, 0.0)) for part, begun in self._running.items())
            done = sum(self._took.values())
            whole = done + sum(rest.values())
            return (done + under_way) / whole if whole > 0 else None

    @property
    def took(self) -> dict[str, float]:
        """The seconds of every part that was seen, of the last time where it needed not be done this time."""
        with self._lock:
            return {part: self._before[part] for part in self._kept if part in self._before} | self._took
