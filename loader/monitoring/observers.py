"""The observers of a run: its last error, which is always kept, and metrics on request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from loader.capture.events import Event, Failed, Notify, ignore
from loader.capture.run_state import RunState
from loader.monitoring import metrics
from loader.monitoring.last_error import LastError
from waltally.errors import LoaderError
from waltally.settings import Settings


@contextmanager
def observed(settings: Settings, run_state: RunState, address: str, port: int) -> Iterator[Notify]:
    """Yield what takes a run's events; metrics are served unless the port is 0.

    An error that ends the run is an event too. Raises SettingError where the port is not free.
    """
    last_error = LastError(settings)
    with (
        metrics.served(settings, run_state, address, port) if port else nullcontext(ignore) as count
    ):

        def notify(event: Event) -> None:
            count(event)
            last_error(event)

        try:
            yield notify
        except LoaderError as error:
            notify(Failed(error, retried=False))
            raise
