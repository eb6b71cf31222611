"""A thread that reads the slot into a queue and confirms what the storing thread made durable."""

from __future__ import annotations

import logging
import threading
import time

from loader.capture import source_monitor, wal2json
from loader.capture.messages import Keepalive, Message
from loader.capture.protocol import ProtocolError
from loader.capture.queue import MessageQueue
from loader.capture.stream import Stream
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

    Only positions given to `confirm` go out as feedback, so the server's position never passes the
    position of record. Feedback also goes out while the queue is full, so that a slow target does
    not make the server end the connection.
    """

    def __init__(self, stream: Stream, queue: MessageQueue, position: int) -> None:
        """What is before `position` is durable already."""
        leaves = stream.leaves
        self._decode = stream.decode
        self._withheld = wal2json.withheld if leaves is None else leaves.names.withheld
        self._join = list if leaves is None else leaves.moved.join
        self._monitor = stream.monitor
        self._reason: LoaderError | None = None
        self._connection = stream.replication
        self._queue = queue
        self._flushed_lsn = position
        self._sent_lsn = 0
        self._sent_at = float("-inf")
        self._heard_at = time.monotonic()
        self._asked = False
        self._explain_at = 0.0
        self._status_seconds = stream.found.status_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slot reader", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def confirm(self, position: int) -> None:
        """Note that everything before the position is durable; the server is told soon."""
        self._flushed_lsn = max(self._flushed_lsn, position)

    def stop(self, reason: LoaderError) -> None:
        """Free the slot at once, also while the queue is full; `take` then raises the reason."""
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
        # Here and not in `close`: the storing thread may wait long for the target before that.
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
            elif (change := self._withheld(str(message))) is not None:
                bundle.append(change)
                size += len(change) + _MESSAGE_OVERHEAD
        bundle = self._join(bundle)
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
                self._check_silence()
        elif size < _SMALL_BUNDLE:
            # Waking up per message costs more than processing it.
            time.sleep(_GATHER_SECONDS)

    def _check_silence(self) -> None:
        """Treat a silent server as gone only where the source monitor says that the slot is free.

        A server that skips a transaction without changes for us is silent for minutes, and a new
        session would have to skip it again. If the network fails, keepalives and
        tcp_user_timeout end the connections. If a proxy goes on answering for the server, the
        source monitor gets no answer either.
        """
        silence = time.monotonic() - self._heard_at
        if silence > _SILENCE_TO_ASK and not self._asked:
            self._asked = True
            self._connection.send_status(self._flushed_lsn, want_reply=True)
        if silence > _SILENCE_TO_EXPLAIN and not self._monitor.has_slot:
            raise ProtocolError(f"it has been silent for {silence:.0f} s, and the slot is free")
        if silence > max(self._explain_at, _SILENCE_TO_EXPLAIN):
            self._explain_at = silence + _EXPLAIN_AGAIN
            log.warning(
                "the server has sent nothing for %.0f s: it is busy with a transaction that has no "
                "changes for us; the loader waits, and nothing is lost",
                silence,
            )

    def _keep_up(self) -> None:
        """Send feedback that is due. Raise where the source monitor gets no answer for too long."""
        self._send_status_if_due()
        silent_for = self._monitor.seconds_without_answer
        if silent_for > source_monitor.MAX_SECONDS_WITHOUT_ANSWER:
            raise CannotConnect(
                "The source cannot be reached: the second connection had no answer for "
                f"{silent_for:.0f} s",
                "check that the server runs and has a free connection for the loader",
            )

    def _send_status_if_due(self) -> None:
        overdue = time.monotonic() - self._sent_at >= self._status_seconds
        if overdue or self._flushed_lsn > self._sent_lsn:
            self._send_status()

    def _send_status(self) -> None:
        flushed_lsn = self._flushed_lsn
        self._connection.send_status(flushed_lsn)
        self._sent_lsn = flushed_lsn
        self._sent_at = time.monotonic()
