-- Columns that may be stored out of line, so that an update leaves them out, and that a rows model may not hold: read
-- by an expression alone, or of a row that enters by a condition. `selected` are those that it holds as they are.
create or replace function cdc.large_columns(source jsonb, nodes cdc.tree_node[], selected jsonb) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(jsonb_agg(value ->> 'name' order by ordinal), '[]')
    from jsonb_array_elements(source -> 'columns') with ordinality as one (value, ordinal)
    inner join cdc.read_columns(nodes) as read on read.column_number = one.ordinal and read.is_needed
    where
        not source -> 'key' ? (value ->> 'name')
        and (
            not selected @> jsonb_build_array(jsonb_build_object('column', value -> 'name'))
            or exists (select from unnest(nodes) as node where node.path ~ '\.quals$' and node.path !~ '\.subselect\.')
        )
        and not value ? 'labels'
        -- So many characters, in whatever encoding, fill no page that others share.
        and coalesce(substring(value ->> 'exact' from '\((\d+)\)$')::integer > 500, true)
        and coalesce((select t.typstorage in ('x', 'e') from pg_type as t where t.oid = to_regtype(value ->> 'type')), true)
$$;
