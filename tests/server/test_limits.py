"""A key's minute: what is taken, what is given back, and when to come again."""

from __future__ import annotations

import pytest
from live import Clock

from smoothcert.server.keys import ClientKey
from smoothcert.server.limits import KeyLimits
from smoothcert.server.values import RequestError

KEY = ClientKey("a", "0" * 64, ("predict",), requests_per_minute=6, draws_per_minute=600)


def refused(call, *arguments) -> RequestError:
    with pytest.raises(RequestError) as found:
        call(*arguments)
    return found.value


def test_requests_of_a_minute_come_back_evenly():
    clock = Clock()
    limits = KeyLimits(clock)
    for _ in range(6):
        limits.take_request(KEY)
    found = refused(limits.take_request, KEY)
    assert (found.status, found.retry_after) == (429, 10)
    assert found.text == "requests of key a must be at most 6 a minute; got more"
    clock.now = 10.0
    limits.take_request(KEY)
    assert refused(limits.take_request, KEY).retry_after == 10
    clock.now = 1000.0  # an hour of rest is worth a minute
    for _ in range(6):
        limits.take_request(KEY)
    refused(limits.take_request, KEY)


def test_draws_that_were_not_made_are_given_back_up_to_a_minutes():
    clock = Clock()
    limits = KeyLimits(clock)
    limits.reserve_draws(KEY, 600)
    assert refused(limits.reserve_draws, KEY, 100).retry_after == 10
    limits.give_back_draws(KEY, 100)
    limits.reserve_draws(KEY, 100)
    limits.give_back_draws(KEY, 10**9)
    limits.reserve_draws(KEY, 600)
    assert refused(limits.reserve_draws, KEY, 1).status == 429


def test_a_request_for_more_than_a_minute_gives_never_waits():
    found = refused(KeyLimits(Clock()).reserve_draws, KEY, 601)
    assert (found.status, found.retry_after) == (400, None) and "at most the 600 a minute" in found.text


def test_keys_do_not_share_and_no_limit_is_none():
    limits = KeyLimits(Clock())
    free = ClientKey("b", "1" * 64, ("predict",))
    limits.reserve_draws(KEY, 600)
    for _ in range(1000):
        limits.take_request(free)
        limits.reserve_draws(free, 10**12)
    limits.reserve_draws(ClientKey("c", "2" * 64, ("predict",), draws_per_minute=600), 600)


def test_a_changed_limit_holds_at_once():
    limits = KeyLimits(Clock())
    limits.reserve_draws(KEY, 600)
    limits.reserve_draws(ClientKey("a", "0" * 64, ("predict",), draws_per_minute=700), 700)
