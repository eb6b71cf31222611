"""Many clients insert into one group: what each way of counting leaves of their writes."""
