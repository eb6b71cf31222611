-- Rows that a seed had to leave out are listed, as the stream's rejected changes are.

create table historical_rejections (
    slot_name text collate "C" not null,
    source_table text collate "C" not null,
    reason text not null,
    row_count bigint not null check (row_count > 0),
    example jsonb not null,
    primary key (slot_name, source_table, reason)
);

comment on table historical_rejections is
    'Rows that were there before the stream and that the seed could not count, by reason.';
comment on column historical_rejections.example is
    'The dimensions of one of the rows, long values cut.';
