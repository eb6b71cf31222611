"""A thread that reads the slot into a queue and confirms what the storing thread made durable."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from loader.capture import wal2json, watch
from loader.capture.messages import Keepalive, Message
from loader.capture.protocol import ProtocolError, ReplicationConnection
from loader.capture.queue import MessageQueue
from waltally.errors import CannotConnect, LoaderError, unexpected

_BUNDLE_SIZE = 128 * 1024
_MESSAGE_OVERHEAD = 64
_SMALL_BUNDLE = 64 * 1024
_GATHER_SECONDS = 0.001
_IDLE_WAIT = 0.5
_SILENCE_TO_ASK = 15.0
_SILENCE_TO_EXPLAIN = 30.0
_EXPLAIN_AGAIN = 60.0

log = logging.getLogger("loader")


class SlotReader:
    """Follows a started replication connection until closed.

    Only positions given to `confirm` ever go out as feedback, so the server cannot overtake the
    position of record. Feedback also goes out while the queue is full, so that a slow target
    does not make the server think us dead.
    """

    def __init__(
        self,
        connection: ReplicationConnection,
        queue: MessageQueue,
        position: int,
        status_seconds: float,
        watch: watch.Watch,
        decode: Callable[[bytes], Message | None] = wal2json.decode,
    ) -> None:
        """`position` is durable already; a status goes out at least every `status_seconds`.

        `watch` knows whether the server still works for us while it is silent; `decode` reads a
        payload, None where it is nothing to store.
        """
        self._decode = decode
        self._watch = watch
        self._reason: LoaderError | None = None
        self._connection = connection
        self._queue = queue
        self._durable = position
        self._sent = 0
        self._sent_at = float("-inf")
        self._heard_at = time.monotonic()
        self._asked = False
        self._explain_at = 0.0
        self._status_seconds = status_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slot reader", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def confirm(self, position: int) -> None:
        """Let the server know, soon, that everything before the position is durable."""
        self._durable = max(self._durable, position)

    def leave(self, reason: LoaderError) -> None:
        """Free the slot at once, also while the queue is full; whoever takes gets the reason."""
        self._reason = self._reason or reason
        self._stopping.set()

    def close(self) -> None:
        """Confirm what is durable, stop reading and free the slot."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._connection.finish()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._read_bundle()
            if self._reason is not None:
                raise self._reason
            self._send_status()
        except (LoaderError, ProtocolError, ValueError) as error:
            self._fail(error)
        except BaseException as error:
            log.debug("the reader broke", exc_info=error)
            self._fail(unexpected(error))

    def _fail(self, error: Exception) -> None:
        # Here and not in `close`: the storing thread may wait for the target for long.
        self._connection.finish()
        self._queue.fail(error)

    def _read_bundle(self) -> None:
        bundle: list[Message] = []
        size = 0
        decode = self._decode
        arrived = self._connection.receive(_BUNDLE_SIZE)
        for message in arrived:
            if type(message) is bytes:
                if (decoded := decode(message)) is not None:
                    bundle.append(decoded)
                    size += len(message) + _MESSAGE_OVERHEAD
            elif isinstance(message, Keepalive):
                if message.wants_reply:
                    self._send_status()
                bundle.append(message)
                size += _MESSAGE_OVERHEAD
            elif (change := wal2json.withheld(str(message))) is not None:
                bundle.append(change)
                size += len(change) + _MESSAGE_OVERHEAD
        self._keep_up()
        if bundle:
            self._heard_at = time.monotonic()
            self._asked = False
            self._explain_at = 0.0
            while not self._queue.put(bundle, size, _IDLE_WAIT):
                if self._stopping.is_set():
                    return
                self._keep_up()
        if not arrived:
            if not self._connection.wait(min(_IDLE_WAIT, self._status_seconds)):
                self._watch_silence()
        elif size < _SMALL_BUNDLE:
            # Woken for each message, reader and server would spend more on that than on it.
            time.sleep(_GATHER_SECONDS)

    def _watch_silence(self) -> None:
        """Take a silent server for what it is: gone only where the server says so.

        One that skips a transaction without changes for us is silent for minutes; a new session
        would have to skip the same again. A network that is gone ends the connections by their
        keepalives and tcp_user_timeout; where something between answers for the server, the
        watch gets no answer either.
        """
        silence = time.monotonic() - self._heard_at
        if silence > _SILENCE_TO_ASK and not self._asked:
            self._asked = True
            self._connection.send_status(self._durable, want_reply=True)
        if silence > _SILENCE_TO_EXPLAIN and not self._watch.is_ours:
            raise ProtocolError(f"it has been silent for {silence:.0f} s, and the slot is free")
        if silence > max(self._explain_at, _SILENCE_TO_EXPLAIN):
            self._explain_at = silence + _EXPLAIN_AGAIN
            log.warning(
                "the server has sent nothing for %.0f s: it is busy with a transaction that has no "
                "changes for us; the loader waits, and nothing is lost",
                silence,
            )

    def _keep_up(self) -> None:
        """Send what is due, and do not stream where nobody can see what we do to the server."""
        self._send_status_if_due()
        if (blind := self._watch.blind_seconds) > watch.BLIND_SECONDS:
            raise CannotConnect(
                "The source cannot be reached: the second connection had no answer for "
                f"{blind:.0f} s",
                "check that the server runs and has a free connection for the loader",
            )

    def _send_status_if_due(self) -> None:
        overdue = time.monotonic() - self._sent_at >= self._status_seconds
        if overdue or self._durable > self._sent:
            self._send_status()

    def _send_status(self) -> None:
        durable = self._durable
        self._connection.send_status(durable)
        self._sent = durable
        self._sent_at = time.monotonic()
