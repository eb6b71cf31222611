-- What those who run the system ask of it.

alter table slot_position
    add column stored_changes bigint not null default 0,
    add column last_error text,
    add column last_error_at timestamptz;
comment on column slot_position.stored_changes is
    'How many changes the loader has appended, counted in the transactions that append them.';
comment on column slot_position.last_error is
    'What a loader last failed with and could still write down; it stays when all is well again.';

create table archive_position (
    slot_name text collate "C" not null,
    location text not null,
    from_lsn pg_lsn not null,
    archived_lsn pg_lsn not null,
    archived_at timestamptz not null default now(),
    primary key (slot_name, location),
    check (archived_lsn >= from_lsn)
);

comment on table archive_position is
    'Which part of the change log spark/archive.py has copied where: whole and durable there.';
comment on column archive_position.archived_lsn is
    'Every change with from_lsn <= commit LSN < archived_lsn is in the archive at the location.';
