"""DAGs that tests run, each by its name: the last line that is printed has the states of its tasks.
The grid is that of ROLLQ_SERVERS."""

from __future__ import annotations

import json
import sys
from datetime import timedelta

from airflow.sdk import DAG

from rollq.airflow import RollqOperator

AT_ONCE = timedelta(0)

with DAG("endings", schedule=None) as endings:
    RollqOperator(task_id="fails", program="fail")
    RollqOperator(task_id="nobody", program="fail", address="127.0.0.1:1", timeout=0.1)
    RollqOperator(
        task_id="shy",
        program="shy",
        arguments=["{{ ti.try_number }}"],
        retries=1,
        retry_delay=AT_ONCE,
    )
    RollqOperator(task_id="cancelled", program="wait", retries=3, retry_delay=AT_ONCE)
    RollqOperator(task_id="slow", program="sleep", execution_timeout=timedelta(seconds=1))

with DAG("waits", schedule=None) as waits:
    RollqOperator(task_id="killed", program="wait")

if __name__ == "__main__":
    run = {"endings": endings, "waits": waits}[sys.argv[1]].test()
    print()
    print(json.dumps({one.task_id: one.state for one in run.get_task_instances()}))
