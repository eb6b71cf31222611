"""Where it does not matter how often a row comes, or what it has."""

from __future__ import annotations

from postgast import pg_query_pb2 as pb

from loader.proposing import tree


def is_once(select: pb.SelectStmt, is_set: bool) -> bool:
    """Return whether it does not matter how often the query's rows come."""
    if any(call.HasField("over") for call in tree.find(select, pb.FuncCall, tree.here(select))):
        return False
    if select.distinct_clause and not select.distinct_clause[0].WhichOneof("node"):
        return True
    return is_set and not select.HasField("limit_count") and not select.HasField("limit_offset")


def select_one(select: pb.SelectStmt) -> None:
    """What EXISTS selects does not matter, where it is not grouped."""
    listed = pb.List(items=select.target_list)
    if select.group_clause or select.distinct_clause or tree.find(listed, pb.FuncCall):
        return
    del select.target_list[:]
    select.target_list.append(pb.Node(res_target=pb.ResTarget(val=tree.expression("1"))))
