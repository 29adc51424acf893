"""Tasks in the order of their dependencies, several at once: the only importer of doit.

doit decides what may run when. What has to run at all is decided by stage keys, so its own
state, checkers and configuration files are not used.
"""

from collections.abc import Mapping, Sequence

from doit.action import BaseAction
from doit.control import TaskControl
from doit.dependency import DependencyStatus
from doit.exceptions import TaskFailed
from doit.runner import MThreadRunner, Runner
from doit.task import Task as DoitTask

from dlbuild.build.task import Task


def run_tasks(tasks: Sequence[Task], jobs: int, *, keep_going: bool = False) -> None:
    """Run all tasks, at most `jobs` at a time.

    Args:
        tasks: names are unique; `after` names only tasks given here.
        jobs: threads; 1 runs the tasks in order on this one.
        keep_going: after a failure, still run what does not depend on it.

    Raises:
        ExceptionGroup: what the failed tasks raised, in the order of `tasks`.
    """
    failures: dict[str, Exception] = {}
    made = [
        DoitTask(task.name, [_Action(task, failures)], task_dep=list(task.after)) for task in tasks
    ]
    control = TaskControl(made)
    control.process(None)
    state, reporter = _NoState(), _Silence()
    runner = (
        MThreadRunner(state, reporter, continue_=keep_going, num_process=jobs)
        if jobs > 1
        else Runner(state, reporter, continue_=keep_going)
    )
    runner.run_all(control.task_dispatcher())
    raised = [failures[task.name] for task in tasks if task.name in failures]
    if raised:
        raise ExceptionGroup("tasks failed", raised)


class _Action(BaseAction):  # type: ignore[misc] # doit has no type hints
    """Calls a task. Unlike doit's own action it leaves the process's stdout alone."""

    def __init__(self, task: Task, failures: dict[str, Exception]) -> None:
        self._task = task
        self._failures = failures
        self.task: object = None
        self.out = self.err = ""
        self.result: None = None
        self.values: Mapping[str, object] = {}

    def execute(self, _out: object = None, _err: object = None) -> TaskFailed | None:
        try:
            self._task.run()
        except Exception as error:  # noqa: BLE001 - raised again by run_tasks
            self._failures[self._task.name] = error
            return TaskFailed(self._task.name)
        return None


class _NoState:
    """doit's memory of earlier runs: there is none."""

    def get_status(self, _task: object, _tasks: object) -> DependencyStatus:
        status = DependencyStatus(get_log=False)
        status.status = "run"
        return status

    def status_is_ignore(self, _task: object) -> bool:
        return False

    def save_success(self, _task: object) -> None: ...

    def remove_success(self, _task: object) -> None: ...

    def get_values(self, _name: str) -> Mapping[str, object]:
        return {}

    def close(self) -> None: ...


class _Silence:
    """doit's reporter: tasks report for themselves; a fault of the task list is ours."""

    def initialize(self, _tasks: object, _selected: object) -> None: ...

    def get_status(self, _task: object) -> None: ...

    def execute_task(self, _task: object) -> None: ...

    def add_failure(self, _task: object, _failure: object) -> None: ...

    def add_success(self, _task: object) -> None: ...

    def teardown_task(self, _task: object) -> None: ...

    def runtime_error(self, message: str) -> None:
        raise AssertionError(message)

    def complete_run(self) -> None: ...
