"""Replicas on one memory are killed, and the database is restarted: no promise is broken, and none is lost."""

from __future__ import annotations

import pytest
from replicas import Load, ask_all, replay


def test_hundreds_of_answers_through_a_kill_and_two_restarts(postgres, tmp_path):
    load, url = Load(dim=2, answers=600, kills=1, restarts=("fast", "immediate")), postgres.url()
    told, again = ask_all(load, postgres, url, tmp_path, seconds=120)
    found = replay(url, told)
    assert again >= 1 and found["switched"] > 10 and found["shrunk"] > 10, found


@pytest.mark.study
@pytest.mark.parametrize("dim", [2, 3, 4])
def test_ten_thousand_answers_through_kills_and_restarts(postgres, tmp_path, dim):
    modes = ("fast", "immediate") * 4
    load, url = Load(dim, answers=10_000, kills=10, restarts=modes, largest=(0.06, 0.12, 0.2)[dim - 2]), postgres.url()
    told, again = ask_all(load, postgres, url, tmp_path, seconds=1200)
    found = replay(url, told)
    print(f"\n{dim} dimensions: {found}, {again} questions asked again, 10 kills, {len(modes)} restarts")
    assert found["switched"] > 100 and found["shrunk"] > 100, found
