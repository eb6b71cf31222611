-- The staging tables. Runs with search_path set to the staging schema, in one transaction.

create table change_log (
    slot_name text collate "C" not null,
    commit_lsn pg_lsn not null,
    ordinal bigint not null,
    xid bigint not null,
    committed_at timestamptz not null,
    staged_at timestamptz not null default now(),
    payload text compression lz4 not null,
    primary key (slot_name, commit_lsn, ordinal)
) partition by range (commit_lsn);

comment on table change_log is
    'One row per change, as wal2json format 2 sent it; whole source transactions only.';
comment on column change_log.commit_lsn is
    'Start of the source transaction''s commit record: the position of the whole transaction.';
comment on column change_log.ordinal is
    'Place of the change within its source transaction, from 1.';
comment on column change_log.payload is
    'The JSON text untouched; text, not json, so that nothing that arrives can be refused.';

create table slot_position (
    slot_name text collate "C" primary key,
    system_identifier text not null,
    source_database text not null,
    start_lsn pg_lsn not null,
    position_lsn pg_lsn not null,
    moved_at timestamptz not null default now(),
    check (position_lsn >= start_lsn)
);

comment on table slot_position is
    'The position of record: one row per slot, written in the transaction that appends its rows.';
comment on column slot_position.start_lsn is
    'The change log holds every change with start_lsn <= commit_lsn < position_lsn.';
comment on column slot_position.position_lsn is
    'Every source transaction with a commit LSN below this is in the change log.';

create table model_watermark (
    model_name text collate "C" not null,
    slot_name text collate "C" not null,
    applied_lsn pg_lsn not null,
    seed_id uuid,
    moved_at timestamptz not null default now(),
    primary key (model_name, slot_name)
);

comment on table model_watermark is
    'How far each dbt model has applied each slot''s changes; written in the transaction that merges.';
comment on column model_watermark.model_name is
    'The model''s relation as schema.name, so that two dbt targets do not share a watermark.';
comment on column model_watermark.applied_lsn is
    'Every change with a commit LSN below this is in the model.';
comment on column model_watermark.seed_id is
    'The historical seed the model was built on; null where it was built on none.';

create table historical_snapshot (
    slot_name text collate "C" primary key,
    seed_id uuid not null,
    snapshot_lsn pg_lsn not null,
    system_identifier text not null,
    seeded_at timestamptz not null default now()
);

comment on table historical_snapshot is
    'Which seed historical_counts holds: rows as they were at snapshot_lsn, before any change with a commit LSN at or above it.';

create table historical_counts (
    slot_name text collate "C" not null,
    source_table text collate "C" not null,
    service_id uuid not null,
    template_id uuid not null,
    notification_type text collate "C" not null,
    notification_status text collate "C" not null,
    row_count bigint not null check (row_count > 0),
    primary key (
        slot_name,
        source_table,
        service_id,
        template_id,
        notification_type,
        notification_status
    )
);

comment on table historical_counts is
    'Rows per source table and dimensions at the seed''s snapshot; replaced as a whole in one transaction.';
comment on column historical_counts.source_table is
    'The table as LOADER_TABLES names it, for instance public.notifications.';

-- PostgreSQL 15 has no test for valid JSON. A subtransaction a row, so it is not parallel safe.
create function jsonb_or_null(payload text) returns jsonb
language plpgsql immutable strict parallel unsafe as $$
begin
    return payload::jsonb;
exception when others then
    return null;
end
$$;

comment on function jsonb_or_null(text) is
    'The text as jsonb, or null where it is not valid JSON: one bad payload must not stop a batch.';
