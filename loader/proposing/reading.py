"""What is only known when somebody reads: parameters, the clock, other tables' rows, aggregates."""

from __future__ import annotations

from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.book import Book

CLOCKS = (
    "now", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday", "age",
)  # fmt: skip


def is_aggregate(book: Book, call: pb.FuncCall) -> bool:
    """Return whether a call is an aggregate, and no window."""
    return tree.called(call) in book.catalog.aggregates and not call.HasField("over")


def is_clock(call: pb.FuncCall) -> bool:
    """Return whether a call's result depends on when it is asked."""
    name = tree.called(call)
    return name in CLOCKS and not (name == "age" and len(call.args) == 2)


def is_read(book: Book, message: Message) -> bool:
    """Return whether an expression can only be computed when somebody reads."""
    for one in tree.walk(message):
        if isinstance(one, (pb.ParamRef, pb.SQLValueFunction)):
            return True
        if isinstance(one, pb.SubLink) and tree.find(one, pb.RangeVar):
            return True
        if isinstance(one, pb.FuncCall) and (
            is_clock(one) or one.HasField("over") or tree.called(one) in book.catalog.aggregates
        ):
            return True
    return False
