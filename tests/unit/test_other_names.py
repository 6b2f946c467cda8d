from __future__ import annotations

import cloudpickle
import pytest

from rollq import LocalError, context
from rollq.celery import Celery
from rollq.pickled import run_pickled
from rollq.tasks import TASKS


def test_what_celery_binds_is_refused_with_what_to_do() -> None:
    app = Celery("shop", broker="pyamqp://nowhere")
    app.config_from_object("celeryconfig")
    with pytest.raises(LocalError, match=r"rollq\.context"):
        app.task(bind=True)
    assert app.conf.broker == "pyamqp://nowhere"


def test_a_pickled_function_is_called_with_all_names() -> None:
    factor = 2
    packed = cloudpickle.dumps(lambda x, *, function: (x * factor, function))
    assert run_pickled(packed, 3, function="own") == (6, "own")
    assert TASKS["rollq.run"] is run_pickled


def test_outside_of_a_job_there_is_no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LocalError, match="does not run in a job"):
        context()
    monkeypatch.setenv("ROLLQ_JOB_ID", "00000000-0000-0000-0000-00000000002a")
    monkeypatch.setenv("ROLLQ_ATTEMPT", "3")
    assert (context().job_id[-2:], context().attempt) == ("2a", 3)
