-- What `loader prune` leaves behind: a rebuild that would need the rows that are gone must be refused.

alter table slot_position add column pruned_from_lsn pg_lsn;
comment on column slot_position.pruned_from_lsn is
    'Where the change log began before loader prune first moved start_lsn; null where it never did.';
