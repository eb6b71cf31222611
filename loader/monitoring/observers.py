"""The observers of a run: its last error, which is always kept, and metrics on request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from loader.capture.events import Event, Failed, Notify, ignore
from loader.capture.run_state import RunState
from loader.monitoring.last_error import LastError
from waltally.errors import LoaderError
from waltally.settings import Settings


@contextmanager
def observed(settings: Settings, run_state: RunState, address: str, port: int) -> Iterator[Notify]:
    """Yield what takes a run's events; metrics are served unless the port is 0.

    An error that ends the run is an event too. Raises SettingError where the port is not free.
    """
    last_error = LastError(settings)
    with _served(settings, run_state, address, port) as count:

        def notify(event: Event) -> None:
            count(event)
            last_error(event)

        try:
            yield notify
        except LoaderError as error:
            notify(Failed(error, retried=False))
            raise


def _served(
    settings: Settings, run_state: RunState, address: str, port: int
) -> AbstractContextManager[Notify]:
    if not port:
        return nullcontext(ignore)
    # Only here: a loader without metrics starts faster without the client's modules.
    from loader.monitoring import metrics

    return metrics.served(settings, run_state, address, port)
