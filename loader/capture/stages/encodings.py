"""Changes whose text the target cannot hold: stored in hexadecimal, and rejected by the models.

A WIN1252 database, for example, can store the byte 0x81, which has no character in UTF8.
"""

from __future__ import annotations

import json

from loader.capture import wal2json
from loader.capture.wal2json import Begin, Change, Message
from waltally.database import connect
from waltally.errors import EncodingUnfit


class EncodingChecker:
    """Asks the target, in a session of its own, whether it can hold the text of each change."""

    def __init__(self, target: str, encoding: str, until: int) -> None:
        """`encoding` is the source's; changes that commit after `until` are not checked.

        Raises LoginRefused, CannotConnect.
        """
        self._connection = connect(target, "target")
        self._encoding = encoding
        self._until = until
        self._checks = True

    def close(self) -> None:
        """End the session."""
        self._connection.close()

    def check(self, messages: list[Message]) -> list[Message]:
        """Return the messages; a change that the target cannot hold is replaced.

        Raises LoaderError where the target cannot be asked.
        """
        return [self._checked(message) for message in messages]

    def _checked(self, message: Message) -> Message:
        if isinstance(message, Begin):
            self._checks = message.commit_lsn <= self._until
        elif type(message) is bytes and self._checks and not message.isascii():
            return self._storable(message)
        return message

    def _storable(self, change: Change) -> Change:
        if self._text(change) is not None:
            return change
        kept: dict[str, object] = {}
        if change[:11] == b'{"action":"':
            kept["action"] = change[11:12].decode("latin-1")
        names = [self._text(name) for name in wal2json.names(change)]
        if names and None not in names:
            kept["schema"], kept["table"] = (json.loads(str(name)) for name in names)
        kept["undecodable"] = {"encoding": self._encoding, "bytes": change.hex()}
        return json.dumps(kept, separators=(",", ":")).encode()

    def _text(self, sent: bytes) -> str | None:
        """Return the bytes as text; None where the target lacks one of the characters."""
        try:
            ((text,),) = self._connection.ask("select convert_from(%s, %s)", (sent, self._encoding))
        except EncodingUnfit:
            return None
        return str(text)
