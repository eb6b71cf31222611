"""SIGTERM and Ctrl-C as an event."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

THREAD = "stop signals"


@contextmanager
def stop_event(
    *numbers: signal.Signals, then: Callable[[], None] = lambda: None
) -> Iterator[threading.Event]:
    """Yield an event that is set once the process gets one of the signals. Main thread only.

    `then` is called at each signal, in a thread: the process may take a while to stop.
    A handler must not set it: it runs in the main thread, perhaps in the middle of `Event.wait`,
    which holds the lock that `Event.set` waits for, and the process would never stop. So the
    interpreter writes each signal's number into a socket, and a thread sets the event.
    """
    stop = threading.Event()
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def wait() -> None:
        while received := reader.recv(1):
            if received[0] in numbers:
                stop.set()
                then()

    thread = threading.Thread(target=wait, name=THREAD, daemon=True)
    with reader, writer:
        thread.start()
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        handlers = {number: signal.signal(number, lambda *_: None) for number in numbers}
        try:
            yield stop
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(before)
            writer.close()
            thread.join()
