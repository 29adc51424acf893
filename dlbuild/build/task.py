"""What has to be done, and after what; first by what the store has, then by running."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace


def _nothing() -> bool:
    return False


@dataclass(frozen=True)
class Task:
    """Something to do once all tasks named in `after` have succeeded.

    find: does it without running anything, if that is possible, and says whether it was.
    """

    name: str
    run: Callable[[], None]
    after: tuple[str, ...] = ()
    find: Callable[[], bool] = _nothing


def find_all(tasks: Sequence[Task]) -> list[Task]:
    """Do what can be found, in order, and return the tasks that are left to run.

    `after` of those names only tasks that are left too.
    """
    found: set[str] = set()
    tried: set[str] = set()
    while True:
        ready = [t for t in tasks if t.name not in tried and found.issuperset(t.after)]
        if not ready:
            break
        for task in ready:
            tried.add(task.name)
            if task.find():
                found.add(task.name)
    return [
        replace(task, after=tuple(name for name in task.after if name not in found))
        for task in tasks
        if task.name not in found
    ]


def run_in_order(tasks: Sequence[Task]) -> None:
    """Run tasks on this thread, each as soon as those before it are done, up to the first fault.

    Raises:
        ExceptionGroup: what the task that failed raised.
    """
    left = list(tasks)
    done: set[str] = set()
    while left:
        ready = next(task for task in left if done.issuperset(task.after))
        try:
            ready.run()
        except Exception as fault:  # noqa: BLE001 - any, as those of threads
            raise ExceptionGroup("a task failed", [fault]) from None
        done.add(ready.name)
        left.remove(ready)
