"""The observers of a run: its last error, which is always kept, and what serves metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from loader.capture.events import Event, Failed, Notify
from loader.monitoring.last_error import LastError
from waltally.errors import LoaderError
from waltally.settings import Settings


@contextmanager
def observed(settings: Settings, served: AbstractContextManager[Notify]) -> Iterator[Notify]:
    """Yield what takes a run's events, and hands them to what `served` yields.

    An error that ends the run is an event too. Raises what `served` does.
    """
    last_error = LastError(settings)
    with served as count:

        def notify(event: Event) -> None:
            count(event)
            last_error(event)

        try:
            yield notify
        except LoaderError as error:
            notify(Failed(error, retried=False))
            raise
