"""The 22 queries of TPC-H, each kept: eight tables, their models, and a view for each query."""
