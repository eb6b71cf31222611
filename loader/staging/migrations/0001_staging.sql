-- The staging tables. Runs with search_path set to the staging schema, in one transaction.

create table change_log (
    slot_name text collate "C" not null,
    commit_lsn pg_lsn not null,
    ordinal bigint not null,
    xid bigint not null,
    committed_at timestamptz not null,
    staged_at timestamptz not null default now(),
    payload text not null,
    action "char",
    primary key (slot_name, commit_lsn, ordinal)
) partition by range (commit_lsn);

-- It costs less time than pglz, but a server may have been built without it.
do $$
begin
    if (
        select 'lz4' = any (enumvals) from pg_settings where name = 'default_toast_compression'
    ) then
        alter table change_log alter payload set compression lz4;
    end if;
end
$$;

comment on table change_log is
    'One row per change, as wal2json format 2 sent it; whole source transactions only.';
comment on column change_log.commit_lsn is
    'Start of the source transaction''s commit record: the position of the whole transaction.';
comment on column change_log.ordinal is
    'Place of the change within its source transaction, from 1.';
comment on column change_log.payload is
    'The JSON text untouched; text, not json, so that nothing that arrives can be refused.';
comment on column change_log.action is
    'The plugin''s action letter, where the payload is JSON in the plugin''s own form; null where '
    'that was not established: readers then parse the payload themselves.';

-- A TRUNCATE cancels what came before it, so readers ask for it first.
create index change_log_truncates on change_log (slot_name, commit_lsn, ordinal)
    where action is null or action = 'T';

create table slot_position (
    slot_name text collate "C" primary key,
    system_identifier text not null,
    source_database text not null,
    timeline bigint,
    timeline_began_lsn pg_lsn,
    on_standby boolean not null default false,
    start_lsn pg_lsn not null,
    position_lsn pg_lsn not null,
    moved_at timestamptz not null default now(),
    table_identities jsonb,
    stored_changes bigint not null default 0,
    last_error text,
    last_error_at timestamptz,
    pruned_from_lsn pg_lsn,
    logged_tables jsonb not null default '[]',
    registration bigint not null default 0,
    followed jsonb not null default '{}',
    leaves jsonb not null default '{}',
    check (position_lsn >= start_lsn)
);

comment on table slot_position is
    'The position of record: one row per slot, written in the transaction that appends its rows.';
comment on column slot_position.timeline is
    'The timeline of the source''s WAL that position_lsn is of; null until a loader has followed it.';
comment on column slot_position.timeline_began_lsn is
    'Where that timeline left the former one, which tells it from another of its number; null for the '
    'first timeline, and until a loader has followed it.';
comment on column slot_position.on_standby is
    'Whether the slot that was last followed was on a standby; its primary does not show it.';
comment on column slot_position.start_lsn is
    'The change log holds every change with start_lsn <= commit_lsn < position_lsn.';
comment on column slot_position.position_lsn is
    'Every source transaction with a commit LSN below this is in the change log.';
comment on column slot_position.table_identities is
    'The counted tables at setup: name to oid and to the attribute numbers of the needed columns.';
comment on column slot_position.stored_changes is
    'How many changes the loader has appended, counted in the transactions that append them.';
comment on column slot_position.last_error is
    'What a loader last failed with and could still write down; loader setup clears it when all is well.';
comment on column slot_position.pruned_from_lsn is
    'Where the change log began before loader prune first moved start_lsn; null where it never did.';
comment on column slot_position.logged_tables is
    'Tables that are logged besides those of the facts, as [[schema, table], ...].';
comment on column slot_position.registration is
    'Grows whenever loader setup changes what is to be followed; a running loader then reads it anew.';
comment on column slot_position.followed is
    'From which position the log holds what: {"schema.table": {"column, or * for all": "LSN"}}; written by the loader.';
comment on column slot_position.leaves is
    'Of each partitioned table, by "schema.table": its partitions when they were last read, and at which LSN; and what was dropped or truncated that facts still count.';

create table fact (
    slot_name text collate "C" not null references slot_position on delete cascade,
    fact_name text collate "C" not null,
    declaration jsonb not null,
    relation_schema text not null,
    relation_name text not null,
    registered_at timestamptz not null default now(),
    primary key (slot_name, fact_name)
);

comment on table fact is
    'The declared facts: what loader setup found in dbt''s manifest. Loader, Spark and dbt read it.';
comment on column fact.fact_name is 'The name of the dbt model.';
comment on column fact.declaration is
    'What the model declares by fact() or current_rows(), written out in full.';
comment on column fact.relation_schema is
    'Where the model puts its rows; another dbt target may have the fact in another schema too.';

create table model_watermark (
    model_name text collate "C" not null,
    slot_name text collate "C" not null,
    applied_lsn pg_lsn not null,
    baseline_id uuid,
    declaration jsonb,
    moved_at timestamptz not null default now(),
    rejected_lsn pg_lsn,
    definition text,
    left_out jsonb,
    primary key (model_name, slot_name)
);

comment on table model_watermark is
    'How far each dbt model has applied each slot''s changes; written in the transaction that merges.';
comment on column model_watermark.model_name is
    'The model''s relation as schema.name, so that two dbt targets do not share a watermark.';
comment on column model_watermark.applied_lsn is
    'Every change with a commit LSN below this is in the model.';
comment on column model_watermark.baseline_id is
    'The baseline the model was built on; null where it was built on none.';
comment on column model_watermark.declaration is
    'The declaration that the model''s rows were counted by.';
comment on column model_watermark.rejected_lsn is
    'The newest change that the model could not count, or a later position; null where none.';
comment on column model_watermark.definition is
    'A hash of the derived columns'' expressions; where the model''s differs, every row is computed anew.';
comment on column model_watermark.left_out is
    'How many rows of each of the fact''s tables belong to no group because a dimension is null: {"live": 3}.';

create table baseline (
    slot_name text collate "C" not null,
    fact_name text collate "C" not null,
    baseline_id uuid not null,
    declaration jsonb not null,
    snapshot_lsn pg_lsn not null,
    system_identifier text not null,
    counted_at timestamptz not null default now(),
    table_identities jsonb,
    left_out jsonb,
    primary key (slot_name, fact_name)
);

comment on table baseline is
    'One row per slot and fact: the rows as they were at snapshot_lsn, before any change with a commit LSN at or above it.';
comment on column baseline.declaration is
    'The declaration that it was counted by; a fact that is declared otherwise waits for its own.';
comment on column baseline.table_identities is
    'What slot_position.table_identities says, at the snapshot; null for an export.';
comment on column baseline.left_out is
    'How many rows of each of the fact''s tables belong to no group because a dimension is null: {"live": 3}.';

create table baseline_group (
    slot_name text collate "C" not null,
    fact_name text collate "C" not null,
    part text collate "C" not null,
    dimensions text[] collate "C" not null,
    measures numeric[] not null,
    purged numeric[]
);

-- No key: long texts of current rows would not fit into an index.
create index baseline_group_fact on baseline_group (slot_name, fact_name, part);

comment on table baseline_group is
    'One row per group of a baseline and table of the fact; replaced as a whole in one transaction.';
comment on column baseline_group.part is
    'The name that the fact gives to the table, for instance live.';
comment on column baseline_group.dimensions is
    'The texts of the dimensions, in the order of the declaration; null where null is a group. The slot''s own name for a dimension that is the slot.';
comment on column baseline_group.measures is
    'What the table adds to each measure, in the order of the declaration; 0 for a measure of other tables. Purged rows are in it.';
comment on column baseline_group.purged is
    'How much of measures is of rows that were purged before the snapshot and are remembered by the fact alone; null where nothing.';

create table baseline_rejection (
    slot_name text collate "C" not null,
    fact_name text collate "C" not null,
    part text collate "C" not null,
    reason text not null,
    row_count bigint not null check (row_count > 0),
    example jsonb not null,
    primary key (slot_name, fact_name, part, reason)
);

comment on table baseline_rejection is
    'Rows that were there before the stream and that the seed could not count, by reason.';
comment on column baseline_rejection.example is
    'The columns of one of the rows, long values cut.';

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

-- PostgreSQL 15 has no test for valid JSON. A subtransaction per row, so it is not parallel safe.
-- Only errors that say the text is no JSON are caught: whatever else goes wrong (memory, disk) must
-- stop the batch, or a good change would be rejected.
create function jsonb_or_null(payload text) returns jsonb
language plpgsql immutable strict parallel unsafe as $$
begin
    return payload::jsonb;
exception
    when data_exception or program_limit_exceeded then
        return null;
end
$$;

comment on function jsonb_or_null(text) is
    'The text as jsonb, or null where it is not valid JSON: one bad payload must not stop a batch.';

-- One column of an image: an array of {"name": ..., "value": ...}, or the part of the plugin's
-- message that begins or ends with it. Null where the image lacks the column; a string that is
-- neither empty nor holds a backslash as it is; anything else as a backslash and its JSON. The models
-- read plain strings by themselves and call this for the rest.
create function image_value(image text, name text) returns text
language plpgsql immutable strict parallel unsafe set search_path from current as $$
declare
    key constant text := to_json(name)::text;
    token text;
    value jsonb;
begin
    if strpos(image, key) = 0 then
        return null;
    end if;
    -- Unescaped quotes are structure: inside a string each has a backslash before it.
    token := split_part(split_part(image, '{"name":' || key || ',"value":', 2), '}', 1);
    if token <> '' and left(token, 1) not in ('"', '[', '{') then
        return '\' || token;
    end if;
    token := case
        when image like '[%' then image
        when image like '{"action":%' then substr(image, strpos(image, '":[') + 2)
        else '[' || image
    end;
    value := jsonb_path_query_first(
        jsonb_or_null(rtrim(token, '} ')),
        '$[*] ? (@.name == $name).value',
        jsonb_build_object('name', name)
    );
    token := value #>> '{}';
    if jsonb_typeof(value) = 'string' and token <> '' and strpos(token, '\') = 0 then
        return token;
    end if;
    return '\' || value::text;
end
$$;

-- Does a type take this text as it is printed under DateStyle ISO and TimeZone UTC? Then a cast never
-- fails, and a value has one text. Dates are those of the years 1 to 9999. `numeric` alone takes the
-- exponent of a double precision, because such values are only added up.
create function takes(type text, value text) returns boolean
language plpgsql immutable strict parallel unsafe as $$
declare
    parts text[];
    number numeric;
begin
    if type in ('date', 'timestamp', 'timestamptz') then
        parts := regexp_match(
            value,
            '^(?!0000)(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])'
            '( ([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?)?(\+00)?$'
        );
        return parts is not null
            and (parts[4] is null) = (type = 'date')
            and (parts[7] is null) = (type <> 'timestamptz')
            and (
                parts[3] <= '28'
                or parts[3]::integer <= extract(
                    day from make_date(parts[1]::integer, parts[2]::integer, 1)
                    + interval '1 month - 1 day'
                )
            );
    elsif type in ('smallint', 'integer', 'bigint') then
        if value !~ '^(0|-?[1-9]\d{0,18})$' then
            return false;
        end if;
        return case type
            when 'smallint' then value::numeric between -32768 and 32767
            when 'integer' then value::numeric between -2147483648 and 2147483647
            else value::numeric between -9223372036854775808 and 9223372036854775807
        end;
    elsif type = 'boolean' then
        return value in ('true', 'false');
    elsif type = 'numeric' then
        return length(value) <= 1000 and value ~ '^-?\d+(\.\d+)?([eE][-+]?\d{1,3})?$';
    end if;
    -- numeric(precision, scale)
    if length(value) > 1000 or value !~ '^-?\d+(\.\d+)?$' then
        return false;
    end if;
    parts := regexp_match(type, '^numeric\((\d+), *(\d+)\)$');
    number := trim_scale(value::numeric);
    return scale(number) <= parts[2]::integer
        and abs(number) < 10::numeric ^ (parts[1]::integer - parts[2]::integer);
end
$$;

comment on function takes(text, text) is
    'Whether a type takes a text as a value: one bad value must not stop a batch.';

-- The calendar day of a moment in a zone, or the first day of its month, as a date's text; null where
-- the text is no date, timestamp or timestamptz. A date is its own day. A timestamp is one of
-- column_zone.
create function day_of(value text, column_zone text, zone text, of_month boolean) returns text
language plpgsql immutable strict parallel unsafe set search_path from current as $$
declare
    type constant text := case
        when right(value, 3) = '+00' then 'timestamptz'
        when length(value) = 10 then 'date'
        else 'timestamp'
    end;
    moment timestamp;
begin
    -- The common form, of days that every month has, needs no second look.
    if
        value !~ '^[1-9]\d{3}-(0[1-9]|1[0-2])-([01][1-9]|[12]0|2[1-8]) ([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?$'
        and not takes(type, value)
    then
        return null;
    end if;
    moment := case type
        when 'date' then value::timestamp
        when 'timestamp' then value::timestamp at time zone column_zone at time zone zone
        else left(value, -3)::timestamp at time zone 'UTC' at time zone zone
    end;
    if of_month then
        moment := date_trunc('month', moment);
    end if;
    return case
        when extract(year from moment) between 1 and 9999 then to_char(moment, 'YYYY-MM-DD')
    end;
end
$$;

-- Where a batch that begins at from_lsn ends if it is to hold about so many changes: at the end of
-- a source transaction, to_lsn at the latest.
create function slice_end(slot text, from_lsn pg_lsn, to_lsn pg_lsn, changes bigint)
returns pg_lsn
language plpgsql stable set search_path from current as $$
declare
    first_lsn pg_lsn;
    last_lsn pg_lsn;
begin
    select log.commit_lsn into last_lsn
    from change_log as log
    where log.slot_name = slot and log.commit_lsn >= from_lsn and log.commit_lsn < to_lsn
    order by log.slot_name, log.commit_lsn, log.ordinal
    offset changes
    limit 1;
    if not found then
        return to_lsn;
    end if;

    select log.commit_lsn into first_lsn
    from change_log as log
    where log.slot_name = slot and log.commit_lsn >= from_lsn
    order by log.slot_name, log.commit_lsn, log.ordinal
    limit 1;
    if last_lsn > first_lsn then
        return last_lsn;
    end if;

    -- One transaction is larger than the slice: it goes whole.
    select log.commit_lsn into last_lsn
    from change_log as log
    where log.slot_name = slot and log.commit_lsn > first_lsn and log.commit_lsn < to_lsn
    order by log.slot_name, log.commit_lsn, log.ordinal
    limit 1;
    return coalesce(last_lsn, to_lsn);
end
$$;
