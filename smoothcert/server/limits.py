"""What each key may ask for in a minute: requests, and draws. Every replica counts for itself."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from smoothcert.server.keys import ClientKey
from smoothcert.server.values import RequestError


class MinuteBucket:
    """A minute's allowance that fills up evenly; what is left after a minute of rest is one minute's, not more."""

    def __init__(self, per_minute: int, now: float) -> None:
        self.per_minute, self._left, self._then = per_minute, float(per_minute), now

    def take(self, amount: float, now: float) -> float:
        """Take so much, if it is there; seconds until it is, otherwise."""
        self._left = min(self.per_minute, self._left + (now - self._then) * self.per_minute / 60)
        self._then = now
        if amount <= self._left:
            self._left -= amount
            return 0.0
        return (amount - self._left) * 60 / self.per_minute

    def give_back(self, amount: float) -> None:
        """What was taken and not used."""
        self._left = min(self.per_minute, self._left + amount)


class KeyLimits:
    """The buckets of all keys. A limit that the keys file changes begins with a full one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[tuple[str, str], MinuteBucket] = {}

    def take_request(self, key: ClientKey) -> None:
        """Count one request; RequestError(429) where it is one too many."""
        self._take(key, "requests", key.requests_per_minute, 1)

    def reserve_draws(self, key: ClientKey, draws: int) -> None:
        """Set aside the most that a request may draw; RequestError(429) where so many are not left."""
        if 0 < key.draws_per_minute < draws:
            raise RequestError(
                400, f"draws of the request must be at most the {key.draws_per_minute} a minute of key {key.name}; "
                f"got up to {draws}: send fewer inputs, or a smaller n"
            )  # fmt: skip
        self._take(key, "draws", key.draws_per_minute, draws)

    def give_back_draws(self, key: ClientKey, draws: int) -> None:
        """What a request had set aside and did not draw."""
        bucket = self._buckets.get((key.name, "draws"))
        if bucket is not None and draws > 0:
            bucket.give_back(draws)

    def _take(self, key: ClientKey, what: str, per_minute: int, amount: int) -> None:
        if per_minute == 0:
            self._buckets.pop((key.name, what), None)
            return
        bucket = self._buckets.get((key.name, what))
        if bucket is None or bucket.per_minute != per_minute:
            bucket = self._buckets[key.name, what] = MinuteBucket(per_minute, self._clock())
        if wait := bucket.take(amount, self._clock()):
            raise RequestError(
                429, f"{what} of key {key.name} must be at most {per_minute} a minute; got more", math.ceil(wait)
            )
