"""The source is another server: refused."""

from __future__ import annotations

from testkit.databases import empty_database
from testkit.fixtures import MakePipeline
from testkit.servers import Cluster


def test_another_cluster(make_pipeline: MakePipeline, cluster: Cluster, spare: Cluster) -> None:
    """Another server with a database and a slot of the same name."""
    pipeline = make_pipeline(cluster, cluster)
    pipeline.begin()
    position = pipeline.position()
    with empty_database(spare, pipeline.source.name) as other:
        other.load_notify()
        other.execute("select pg_create_logical_replication_slot(%s, 'wal2json')", other.slot)
        usual, pipeline.source = pipeline.source, other
        for command in (("run",), ("setup",)):
            said = pipeline.refused_with(23, f"everything before {position} is stored", *command)
        assert pipeline.loader("status").returncode == 23
        pipeline.source = usual
        usual.insert(3)
        pipeline.goes_on()
        pipeline.source = other
        other.insert(3)
        # Nobody says that the source was replaced, and then nobody set up the slot there.
        pipeline.refused_with(38, "--source-is-gone", "setup", "--renew")
        code, refused = pipeline.refused("setup", "--renew", "--source-is-gone")
        assert code == 38 and "pg_drop_replication_slot" in refused
        other.execute("select pg_drop_replication_slot(%s)", other.slot)
        pipeline.recovers_from(said)
        pipeline.source = usual
