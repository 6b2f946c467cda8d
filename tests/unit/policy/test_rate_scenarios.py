"""Rates and weights, told as scenarios: exactly who gets what, in order (see `scripts`)."""

from __future__ import annotations

import pytest

from tests.unit.policy.scripts import play_to_the_end

SCENARIOS: dict[str, str] = {
    "a_rate_with_a_burst": """
        limit exec:exe rate=2/s burst=3
        open w=99
        submit a b c d e f
        gives a@w b@w c@w
        wakes 500
        says d=rate
        wait 499
        gives
        wakes 1
        wait 1
        gives d@w
        wakes 500
        wait 1000
        gives e@w f@w
        wakes -
    """,
    "a_burst_comes_back_with_rest": """
        limit exec:exe rate=1/s burst=2
        open w=99
        submit a b c
        gives a@w b@w
        end a b
        wait 5000
        gives c@w
        submit d e
        gives d@w
        wait 1000
        gives e@w
    """,
    "a_rate_of_tokens": """
        limit key:api rate=10/s burst=4
        open w=99
        submit a b c keys=api:2
        gives a@w b@w
        wakes 200
        wait 200
        gives c@w
    """,
    "what_is_decided_counts_for_a_rate_before_it_is_applied": """
        limit exec:exe rate=1/s burst=1
        open w=99
        submit a b
        decides a@w
        wait 5000
        decides
        settles a@w
        gives
        wakes 1000
        wait 1000
        gives b@w
    """,
    "a_rate_across_leaders": """
        limit exec:exe rate=1/s burst=1
        open w=9
        submit a b c
        gives a@w
        wait 300
        lead w=9
        gives
        wakes 700
        wait 700
        gives b@w
        lead w=9
        wait 999
        gives
        wait 1
        gives c@w
    """,
    "a_rate_and_a_number_at_once": """
        limit exec:exe running=1 rate=1/s burst=1
        open w=9
        submit a b
        gives a@w
        says b=limit
        wait 3000
        gives
        end a
        gives b@w
    """,
    "weights_one_to_three": """
        weigh bob=3
        open w=8
        submit a1 a2 a3 a4 a5 client=ann
        submit b1 b2 b3 b4 b5 b6 b7 client=bob
        gives a1@w a2@w b1@w b2@w b3@w b4@w b5@w b6@w
    """,
    "weights_count_within_a_priority": """
        weigh bob=2
        open w=7
        submit a1 a2 client=ann priority=5
        submit b1 b2 b3 b4 client=bob
        submit c1 c2 client=ann
        gives a1@w a2@w b1@w b2@w c1@w b3@w b4@w
    """,
    "a_weight_changes_live": """
        open w=4
        submit a1 a2 a3 a4 a5 client=ann
        submit b1 b2 b3 b4 b5 client=bob
        gives a1@w a2@w b1@w b2@w
        weigh ann=3
        grant w=4
        gives a3@w a4@w a5@w b3@w
        weigh ann=1
        grant w=4
        gives b4@w b5@w
    """,
    "weights_where_a_limit_is_met": """
        limit queue:q running=1
        weigh bob=2
        open w=99
        submit a1 a2 client=ann
        submit b1 b2 b3 client=bob
        gives a1@w
        end a1
        gives b1@w
        end b1
        gives b2@w
        end b2
        gives a2@w
        end a2
        gives b3@w
    """,
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    play_to_the_end(SCENARIOS[name])
