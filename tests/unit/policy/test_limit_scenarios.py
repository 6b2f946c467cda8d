"""Limits, told as scenarios: exactly who gets what, in order (see `scripts`)."""

from __future__ import annotations

import pytest

from tests.unit.policy.scripts import play_to_the_end

SCENARIOS: dict[str, str] = {
    "a_program_runs_twice_at_once": """
        limit exec:render running=2
        open w=9
        submit a b c d exec=render
        submit x y exec=other
        gives a@w b@w x@w y@w
        says c=limit d=limit
        gives
        end a
        gives c@w
        end b c
        gives d@w
    """,
    "a_queue_runs_one_at_a_time": """
        limit queue:q running=1
        open w=9
        submit a b
        submit x y queue=r
        gives a@w x@w y@w
        end a
        gives b@w
    """,
    "a_client_runs_two_at_once_in_all_its_queues": """
        limit client:bob running=2
        open w=9
        submit a b client=bob queue=q
        submit c client=bob queue=r
        submit x client=ann queue=q
        gives a@w x@w c@w
        end c
        gives b@w
    """,
    "a_key_of_several_tokens": """
        limit key:gpu running=4
        open w=9
        submit a keys=gpu:3
        submit b keys=gpu:2
        submit c keys=gpu:1
        submit x
        gives a@w x@w
        end a
        gives b@w c@w
    """,
    "who_needs_much_is_not_starved_by_who_needs_little": """
        limit key:gpu running=2
        open w=99
        submit s1 s2 keys=gpu
        gives s1@w s2@w
        submit big keys=gpu:2
        submit s3 s4 keys=gpu
        gives
        end s1
        gives
        says big=limit s3=limit
        end s2
        gives big@w
        end big
        gives s3@w s4@w
    """,
    "a_called_job_of_a_paused_queue_keeps_nobody_of_another_queue": """
        limit key:gpu running=2
        open w=9
        submit a queue=q keys=gpu:2
        gives a@w
        submit b queue=paused keys=gpu:2
        gives
        submit c queue=unheard keys=gpu:2
        pause paused
        end a
        gives c@w
        end c
        resume paused
        gives b@w
    """,
    "several_keys_at_once": """
        limit key:a running=1
        limit key:b running=1
        open w=99
        submit both1 both2 keys=a,b
        submit onlya keys=a
        submit onlyb keys=b
        gives both1@w
        end both1
        gives onlyb@w onlya@w
        end onlya onlyb
        gives both2@w
    """,
    "one_of_two_limits_is_enough_to_wait": """
        limit key:a running=1
        limit key:b running=1
        open w=99
        submit b1 keys=b
        gives b1@w
        submit both keys=a,b
        submit a1 keys=a
        gives a1@w
        says both=limit
        end b1
        gives
        end a1
        gives both@w
    """,
    "two_limits_with_room_hand_nothing_back_and_forth": """
        limit key:a running=1
        limit key:b running=1
        open w=99
        submit a1 keys=a
        submit b1 keys=b
        gives a1@w b1@w
        submit j1 j2 j3 keys=a,b
        gives
        end a1
        gives
        end b1
        gives j1@w
        end j1
        gives j2@w
        end j2
        gives j3@w
    """,
    "a_key_that_nobody_has_set_has_no_limit": """
        open w=9
        submit a b c keys=gpu:7
        gives a@w b@w c@w
    """,
    "two_queues_share_a_key": """
        limit key:licence running=2
        open w=99
        submit a1 a2 a3 queue=a keys=licence
        submit b1 b2 b3 queue=b keys=licence
        gives a1@w b1@w
        end a1
        gives a2@w
        end b1
        gives b2@w
        end a2 b2
        gives a3@w b3@w
    """,
    "priority_where_a_limit_is_met": """
        limit exec:exe running=1
        open w=99
        submit low1 low2 low3
        gives low1@w
        submit high priority=7
        gives
        end low1
        gives high@w
        end high
        gives low2@w
    """,
    "a_cap_and_a_limit": """
        cap ann=1
        limit exec:exe running=2
        open w=99
        submit a1 a2 client=ann
        submit b1 b2 client=bob
        gives a1@w b1@w
        says a2=cap b2=limit
        end b1
        gives b2@w
        end a1
        gives a2@w
    """,
    "a_called_job_at_its_cap_does_not_keep_the_room": """
        limit exec:exe running=2
        open w=99
        submit a1 a2 client=ann
        gives a1@w a2@w
        submit a3 client=ann
        submit b1 client=bob
        gives
        cap ann=1
        end a1
        gives b1@w
    """,
    "an_array_with_a_limit": """
        limit exec:exe running=2
        open w=99
        submit arr tasks=4
        gives arr@w arr@w
        says arr=limit
        end arr/0
        gives arr@w
        end arr/1 arr/2
        gives arr@w
        end arr/3
        gives
    """,
    "an_array_and_jobs_take_turns_at_a_limit": """
        limit exec:exe running=1
        open w=99
        submit arr tasks=2 client=ann
        submit b1 b2 client=bob
        gives arr@w
        end arr/0
        gives b1@w
        end b1
        gives arr@w
        end arr/1
        gives b2@w
    """,
    "an_array_with_a_running_max_of_its_own": """
        limit exec:exe running=3
        open w=99
        submit arr tasks=5 running=2
        submit x
        gives arr@w arr@w x@w
        end x
        gives
        says arr=array_limit
        end arr/0
        gives arr@w
    """,
    "a_limit_is_lowered_while_jobs_run": """
        limit exec:exe running=3
        open w=99
        submit a b c d e
        gives a@w b@w c@w
        limit exec:exe running=1
        end a
        gives
        end b
        gives
        end c
        gives d@w
        gives
    """,
    "a_limit_is_raised": """
        limit exec:exe running=1
        open w=99
        submit a b c d
        gives a@w
        limit exec:exe running=3
        gives b@w c@w
    """,
    "a_limit_is_removed": """
        limit exec:exe running=1
        open w=99
        submit a b c d
        gives a@w
        unlimit exec:exe
        gives b@w c@w d@w
    """,
    "a_limit_comes_when_jobs_run_already": """
        open w=99
        submit a b
        gives a@w b@w
        limit exec:exe running=2
        submit c
        gives
        end a
        gives c@w
    """,
    "more_tokens_than_there_are": """
        limit key:gpu running=2
        open w=99
        submit big keys=gpu:3
        submit a b c keys=gpu
        gives a@w b@w
        says big=limit
        end a
        gives c@w
        limit key:gpu running=4
        end b
        gives big@w
    """,
    "what_is_decided_counts_before_it_is_applied": """
        limit exec:exe running=2
        open w=99
        submit a b c
        decides a@w b@w
        decides
        settles a@w b@w
        gives
    """,
    "no_room_at_all_while_others_hold_everything": """
        limit key:gpu running=1
        open w=99
        submit a keys=gpu queue=q
        gives a@w
        submit b c d keys=gpu queue=r
        submit x queue=r
        gives x@w
        gives
        end a
        gives b@w
    """,
    "another_leader_in_between": """
        limit exec:exe running=2
        open w=99
        submit a b c d
        gives a@w b@w
        lead w=99
        gives
        end a
        gives c@w
        lead w=99
        gives
        end b
        gives d@w
    """,
    "a_decision_that_is_applied_after_the_leader_is_gone": """
        limit exec:exe running=1
        open w=99
        submit a b
        decides a@w
        lead w=99
        settles a@w
        gives
        end a
        gives b@w
    """,
    "cancelled_while_it_waits_for_a_limit": """
        limit exec:exe running=1
        open w=99
        submit a b c
        gives a@w
        cancel b
        end a
        gives c@w
    """,
    "expired_while_it_waits_for_a_limit": """
        limit exec:exe running=1
        open w=99
        submit a
        submit b expire=5
        submit c
        gives a@w
        wait 10
        expire b
        end a
        gives c@w
    """,
    "redriven_after_it_expired_at_a_limit": """
        limit exec:exe running=1
        open w=99
        submit a
        submit b expire=5
        submit c d
        gives a@w
        wait 10
        expire b
        redrive b
        gives
        end a
        gives c@w
        end c
        gives d@w
        end d
        gives b@w
    """,
    "a_job_for_one_worker_with_a_limit": """
        limit exec:exe running=1
        open v=9 w=9
        submit a worker=v
        submit b worker=w
        submit c
        gives a@v
        end a
        gives b@w
        end b
        gives c@v
    """,
    "a_retry_waits_for_the_limit_again": """
        limit exec:exe running=1
        open w=99
        submit a b c
        gives a@w
        lose a
        gives a@w
        submit x priority=3
        lose a
        gives x@w
        end x
        gives a@w
        end a
        gives b@w
    """,
    "a_queue_without_workers_does_not_keep_the_room": """
        limit key:gpu running=1
        open w=99 queue=b
        submit b1 queue=b keys=gpu
        gives b1@w
        submit a1 a2 queue=a keys=gpu
        submit b2 b3 queue=b keys=gpu
        gives
        end b1
        gives b2@w
        end b2
        gives b3@w
    """,
    "a_paused_queue_does_not_keep_the_room": """
        limit key:gpu running=1
        open w=99
        submit x keys=gpu queue=b
        gives x@w
        submit a1 queue=a keys=gpu
        submit b1 queue=b keys=gpu
        gives
        pause a
        end x
        gives b1@w
        end b1
        resume a
        gives a1@w
    """,
    "a_limit_that_is_met_costs_no_credit": """
        limit exec:exe running=1
        open v=1 w=1
        submit a b
        submit x exec=other
        gives a@v x@w
    """,
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    play_to_the_end(SCENARIOS[name])


def test_there_are_enough() -> None:
    assert len(SCENARIOS) >= 20
