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
    'Ordinal of the change within its source transaction, from 1.';
comment on column change_log.payload is
    'The JSON text untouched; text, not json, so that nothing that arrives can be refused.';
comment on column change_log.action is
    'The plugin''s action letter, where the payload is JSON in the plugin''s own form; null where '
    'that was not established: readers then parse the payload themselves.';

-- A TRUNCATE cancels what came before it, so readers ask for it first.
create index change_log_truncates on change_log (slot_name, commit_lsn, ordinal)
    where action is null or action = 'T';

-- Few changes are so long that they count when a batch is measured: see part_end.
create index change_log_long on change_log (slot_name, commit_lsn, ordinal) where octet_length(payload) > 1000000;

create table slot_position (
    slot_name text collate "C" primary key,
    system_identifier text not null,
    source_database text not null,
    -- The timeline of the source's WAL that position_lsn is of; null until a loader has followed it.
    timeline bigint,
    -- Where that timeline left the former one, which tells it from another of its number; null for the first
    -- timeline, and until a loader has followed it.
    timeline_began_lsn pg_lsn,
    -- The change log holds every change with start_lsn <= commit_lsn < position_lsn.
    start_lsn pg_lsn not null,
    -- Every source transaction with a commit LSN below this is in the change log.
    position_lsn pg_lsn not null,
    -- What logged_table says of the columns was so up to here; as far as a loader will read, until there is one.
    catalog_lsn pg_lsn not null default 'FFFFFFFF/FFFFFFFF',
    moved_at timestamptz not null default now(),
    -- How many changes the loader has appended, counted in the transactions that append them.
    stored_changes bigint not null default 0,
    -- Why the log does not go on at position_lsn, as the last loader found: the source was replaced or restored, or its
    -- slot is not what it was. Null where it does, as far as is known.
    broken text,
    check (position_lsn >= start_lsn)
);

comment on table slot_position is
    'The position of record: one row per slot, written in the transaction that appends its rows.';

create table logged_table (
    slot_name text collate "C" not null references slot_position on delete cascade,
    table_schema text collate "C" not null,
    table_name text collate "C" not null,
    -- The table that had the name when a model first needed it; null where no model has.
    table_oid bigint,
    -- The transaction that had last given it its name, schema or owner.
    named_xid bigint,
    -- The attribute numbers that the columns had when a model first needed them: {"column": number}.
    column_numbers jsonb not null default '{}',
    -- What all its columns were called when a loader last read them: {"number": "column"}; null until it has.
    names jsonb,
    -- Its fingerprint when the catalog was last read, see loader/staging/logged_tables.py: {"column": {"number": "2",
    -- ...}, ...}.
    fingerprint jsonb not null default '{}',
    -- From which position on the log holds what: {"column, or * for the others": "LSN"}; empty until a loader follows
    -- it.
    held_since jsonb not null default '{}',
    -- The newest gap: from which position on the log has the table's changes again, and what happened to it.
    gap_lsn pg_lsn,
    gap_event text,
    -- Its partitions when they were last read, at which LSN, those that were dropped and whose changes the log still
    -- needs, and those that are new; null where it has none. loader/staging/logged_tables.py writes it.
    partitions jsonb,
    -- A position after the last drop or TRUNCATE of a partition whose rows models still count.
    emptied_lsn pg_lsn,
    -- Why it is not followed yet, and what helps: {"reason", "remedy"}; null where nothing is in the way.
    lacks jsonb,
    primary key (slot_name, table_schema, table_name)
);

comment on table logged_table is
    'The source tables that a loader follows for the installed models, and what the change log holds of each.';

create table source_table (
    slot_name text collate "C" not null references slot_position on delete cascade,
    table_schema text collate "C" not null,
    table_name text collate "C" not null,
    -- For reading a query over it: {"columns": [{"name", "type", "labels" of an enum}, ...] in their order, "key":
    -- ["id"], "is_key_deferrable", "has_old_rows"}. A type that is not built in is `other`. Null until it is read.
    shape jsonb,
    primary key (slot_name, table_schema, table_name)
);

comment on table source_table is
    'The tables of a source in another database, as loader setup last read them; of its own dbt asks the catalog.';

create table installed_model (
    slot_name text collate "C" not null,
    -- The model's table as schema.name, so that two dbt targets do not share a watermark.
    relation text collate "C" not null,
    -- The model's name in dbt.
    model_name text collate "C" not null,
    -- Where its rows are.
    relation_schema text not null,
    relation_name text not null,
    -- The dbt project, and the schema of the dbt target that has installed it: there it has one relation.
    project_name text,
    target_schema text,
    -- The first of a name that is there is followed; each other one is a copy of it.
    added_at timestamptz not null default clock_timestamp(),
    -- What its query was compiled to: see compile_query.
    declaration jsonb not null,
    -- The columns that it needs of each table: see needed_columns.
    needed jsonb not null,
    -- How the query was read then: {"text", "sources", "options"}, as compile_query takes them.
    reading jsonb,
    -- The function that applies a batch to the model, as SQL writes its name.
    routine text not null,
    -- Which values of which table the routine takes from a change, in its own order: [["schema.table", [value,
    -- ...]], ...].
    needs jsonb not null,
    -- The numbers that the slot's reader gives to these tables; null where it does not give all that is needed.
    table_nos integer[],
    -- By table, where the reader puts these values; null for a value that is not of the table.
    ordinals integer[],
    -- Of a query that has changed and waits for its baseline, the installed one before it, which goes on being applied:
    -- declaration, routine and needs, with the numbers and ordinals as above.
    former jsonb,
    former_table_nos integer[],
    former_ordinals integer[],
    -- Whether the next apply starts from the baseline again, because of dbt build --full-refresh.
    is_refresh_asked boolean not null default false,
    installed_at timestamptz not null default now(),
    -- What the last apply of this model failed with; null since one succeeded.
    error text,
    remedy text,
    -- Whether it failed because somebody had locked what it needs: then nothing is wrong.
    is_locked boolean not null default false,
    -- Whether it waits until a loader has looked what its tables' columns are called.
    is_unseen boolean not null default false,
    failed_at timestamptz,
    failures integer not null default 0,
    retry_at timestamptz,
    -- What the last seed that a loader has started for it ended with; null since one succeeded.
    seed_error text,
    seed_failures integer not null default 0,
    seed_retry_at timestamptz,
    -- Whether the project that has installed it has it no more: see note_project.
    is_unbuilt boolean not null default false,
    -- Who computes what a batch adds to it: cdc.apply, or spark/apply.py.
    engine text not null default 'database' check (engine in ('database', 'spark')),
    primary key (slot_name, relation)
);

comment on table installed_model is
    'The models that dbt has installed: what is followed for them, which routine applies a batch, and what it last '
    'failed with.';

create table dependent_model (
    -- The model's table as schema.name.
    relation text collate "C" primary key,
    -- The model as commands take it.
    model_name text collate "C" not null,
    project text collate "C" not null,
    -- What its query was compiled to, over which columns of its inputs.
    declaration jsonb not null,
    -- The function that fills it, and adds what an input has changed, as SQL writes its name.
    routine text not null,
    -- The indexes on its inputs that it needs, as needed_indexes gives them.
    indexes jsonb not null,
    -- How many models are below it at most: the highest takes changes first.
    level integer not null default 1,
    -- As in installed_model.
    is_unbuilt boolean not null default false,
    -- What it last failed with; null since it was filled.
    error text,
    remedy text,
    failures integer not null default 0,
    retry_at timestamptz,
    -- When an audit last found it equal to its query; null since it was built again.
    audited_at timestamptz,
    -- The server's then.
    major_version integer
);

comment on table dependent_model is
    'The models over models that dbt has installed. apply brings each what its inputs changed, in one transaction.';

create table dependent_input (
    relation text collate "C" not null references dependent_model on delete cascade,
    -- The relation of a model that it reads.
    input_relation text collate "C" not null,
    primary key (relation, input_relation)
);

create index dependent_input_by_input on dependent_input (input_relation);

comment on table dependent_input is 'Which models a model over models reads.';

create table to_fill (
    relation text collate "C" not null,
    reason text not null,
    asked_at timestamptz not null default now()
);

-- No key: whoever asks waits for nobody. A publication for all tables refuses deletes from a table without an identity.
alter table to_fill replica identity full;

create index to_fill_model on to_fill (relation);

comment on table to_fill is 'The models over models that are to be filled from their inputs, and why.';

create table queued_change (
    relation text collate "C" not null,
    -- Who has changed an input: the statement that fills the model saw some of them.
    xid xid8 not null default pg_current_xact_id(),
    -- A row as write_queue gives it.
    change jsonb not null
);

alter table queued_change replica identity full;

comment on table queued_change is
    'What changed for a model over models while it is filled: added in the last step, under the locks of its inputs.';

create table installed_function (
    -- The model's table as schema.name; of a function that reads the change log, reader_name(slot).
    relation text collate "C" not null,
    -- As SQL writes it, with the types of its arguments.
    name text collate "C" not null,
    primary key (relation, name)
);

comment on table installed_function is
    'The functions that dbt has made for each model. marked_object says which of these are there and really ours.';

create table batch_reader (
    slot_name text collate "C" primary key,
    gives jsonb not null
);

comment on table batch_reader is
    'What the function that reads a slot''s changes for its models gives: [["schema.table", [value, ...]], ...].';

create table model_watermark (
    relation text collate "C" not null,
    slot_name text collate "C" not null,
    -- Every change with a commit LSN below this is in the model.
    applied_lsn pg_lsn not null,
    -- The baseline the model was built on; null where it was built on none.
    baseline_id uuid,
    -- The declaration that the model's rows were counted by.
    declaration jsonb,
    moved_at timestamptz not null default now(),
    -- The newest change that the model could not count; null where none.
    rejected_lsn pg_lsn,
    -- When an audit last found it equal to its tables; null since it was built again.
    audited_at timestamptz,
    -- The server's when its rows were counted, or an audit last found it equal.
    major_version integer,
    -- From here on a change came without its old row: nobody knows from which group to take it away.
    lost_lsn pg_lsn,
    primary key (relation, slot_name)
) with (fillfactor = 50);

comment on table model_watermark is
    'How far each model has applied each slot''s changes; written in the transaction that adds them.';

create table ignored_delete (
    slot_name text collate "C" not null,
    relation text collate "C" not null,
    part text collate "C" not null,
    commit_lsn pg_lsn not null,
    dimensions text[] collate "C" not null,
    -- What the deleted rows had added to each measure, in the order of the declaration.
    measures numeric[] not null
);

-- No key, because groups repeat; a publication for all tables refuses deletes from a table without an identity.
alter table ignored_delete replica identity full;

create index ignored_delete_model on ignored_delete (slot_name, relation, part, commit_lsn);

comment on table ignored_delete is
    'Rows that were deleted from a table whose deletes a model ignores, group by group and transaction '
    'by transaction: the table no longer has them, and the model still counts them.';

create table reader_position (
    slot_name text collate "C" not null references slot_position on delete cascade,
    reader text collate "C" not null,
    -- The reader needs no change with a commit LSN below this any more.
    applied_lsn pg_lsn not null,
    moved_at timestamptz not null default now(),
    primary key (slot_name, reader)
);

comment on table reader_position is
    'Programs of your own that read the change log: loader prune keeps what they have not read.';

create table baseline (
    slot_name text collate "C" not null,
    model_name text collate "C" not null,
    baseline_id uuid not null,
    -- The declaration that it was counted by; a model that is declared otherwise waits for its own.
    declaration jsonb not null,
    snapshot_lsn pg_lsn not null,
    system_identifier text not null,
    counted_at timestamptz not null default now(),
    -- The target's then.
    major_version integer,
    -- What logged_table says of its tables, at the snapshot: {"schema.table": {"table_oid": ..., "named_xid":
    -- ..., "column_numbers": ...}}.
    table_identities jsonb,
    primary key (slot_name, model_name)
);

comment on table baseline is
    'One row per slot and model: the rows as they were at snapshot_lsn, before any change at or above it.';

create table baseline_group (
    slot_name text collate "C" not null,
    model_name text collate "C" not null,
    -- The name that the model gives to the table, for instance live.
    part text collate "C" not null,
    -- The texts of the keys, in the order of the declaration; of rows those of every column.
    dimensions text[] collate "C" not null,
    -- What the table adds to each measure, in the order of the declaration; 0 for a measure of other tables.
    -- Ignored deletes before the snapshot are in it.
    measures numeric[] not null
);

-- No key: long texts of current rows would not fit into an index. A publication for all tables refuses deletes from a
-- table without an identity.
alter table baseline_group replica identity full;

-- By blocks: a seed writes a model's groups one after the other, and an entry for each of millions of groups would cost
-- it more than the groups.
create index baseline_group_model on baseline_group using brin (slot_name, model_name) with (autosummarize = on);

comment on table baseline_group is
    'One row per group of a baseline and table of the model; replaced as a whole in one transaction.';

-- Unlogged: what a crash takes is read again.
create unlogged table computed_change (
    slot_name text collate "C" not null,
    relation text collate "C" not null,
    batch text not null,
    -- The task that wrote it: Spark may run one twice, and names those that count.
    attempt bigint not null,
    -- The ordinal of the source among the model's, from 1; null where the change names no table.
    source_no integer,
    action text,
    -- In bytes of WAL; null where changes that look alike are one.
    commit_lsn bigint,
    is_cancelled boolean not null,
    problem text,
    -- What the model needs of the source, in its own order.
    old_values text[],
    new_values text[],
    change_count bigint not null,
    last_lsn bigint not null,
    missing integer[]
);

comment on table computed_change is
    'Changes that spark/apply.py has read for models that are queries, and cdc.apply_computed adds; as in the type '
    'change. Empty between two batches.';

create table baseline_rejection (
    slot_name text collate "C" not null,
    model_name text collate "C" not null,
    part text collate "C" not null,
    reason text not null,
    row_count bigint not null check (row_count > 0),
    -- The columns of one of the rows, long values cut.
    example jsonb not null,
    primary key (slot_name, model_name, part, reason)
);

comment on table baseline_rejection is
    'Rows that were there before the stream and that the seed could not count, by reason.';

create type model_plan as (
    slot_name text,
    relation text,
    model_name text,
    step text,
    is_ready boolean,
    from_lsn pg_lsn,
    position_lsn pg_lsn,
    applied_lsn pg_lsn,
    declaration jsonb,
    routine text,
    table_nos integer[],
    ordinals integer[],
    is_refresh_asked boolean,
    baseline_id uuid,
    snapshot_lsn pg_lsn,
    error text,
    retry_at timestamptz,
    engine text,
    installed_version xid,
    watermark_version xid,
    rejected_lsn pg_lsn,
    lost_lsn pg_lsn
);

comment on type model_plan is
    'What the next apply, by its engine, does with a model: step is add, for the changes from from_lsn on; rebuild, '
    'which starts from the baseline; or null, because of the verdict.';

comment on column model_plan.is_ready is 'Whether it moves with the others that follow.';

comment on column model_plan.installed_version is
    'The version of its row of installed_model; with watermark_version, that of model_watermark, it tells whether the '
    'plan still holds.';

comment on column model_plan.lost_lsn is 'As in outcome, once it is carried out.';

comment on column model_plan.rejected_lsn is 'The newest change that could not be counted, once it is carried out.';

create type change as (
    table_no integer,
    action text,
    commit_lsn pg_lsn,
    ordinal bigint,
    is_cancelled boolean,
    problem text,
    old_values text[],
    new_values text[],
    change_count bigint,
    last_lsn pg_lsn,
    missing integer[]
);

comment on type change is
    'A change as a model''s routine takes it, or several that look alike.';

comment on column change.table_no is
    'Ordinal of the source table among the reader''s, from 1; null where the change names none.';

comment on column change.commit_lsn is 'Its position, with ordinal; null where changes that look alike are one.';

comment on column change.is_cancelled is 'Whether a TRUNCATE of the table comes later in the batch.';

comment on column change.problem is 'Why no model can count the change; null where nothing is wrong with it as such.';

comment on column change.last_lsn is 'The newest commit LSN of the changes.';

comment on column change.missing is
    'Ordinals of the values that neither image has although the row had them; null, as nearly always, for none. '
    'Those that the new image of an update lacks are there once more, below zero.';

create type tree_node as (
    path text,
    parent text,
    type text,
    fields jsonb,
    queries text[],
    container text
);

comment on type tree_node is 'A node of a query''s parse tree: see tree_nodes.';

create type other_value as (
    value text
);

comment on type other_value is
    'A column of a type that is not built in, while PostgreSQL reads a query over it: it may be cast to text alone.';

create type outcome as (
    rejected_lsn pg_lsn,
    is_reset boolean,
    lost_lsn pg_lsn
);

comment on type outcome is 'What a model''s routine did.';

comment on column outcome.rejected_lsn is 'The newest change that could not be counted; null where none.';

comment on column outcome.lost_lsn is
    'The newest change that came without its old row, which cannot be attributed; null where none.';
comment on column outcome.is_reset is
    'Whether it changed more than the rows that it gives, so that its dependents have to be filled.';

create type computed_batch as (
    id text,
    attempts bigint[],
    row_count bigint
);

comment on type computed_batch is 'The rows of computed_change that are one batch.';
