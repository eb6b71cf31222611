-- A compiled fact over models: what it joins, and of a roll-up how a group's rows are found in the model below.
--
-- inputs   by the numbers in the query: {"model": "schema.table", "key": [...], "columns": [{"name", "type",
-- "is_needed"}]} joins    see read_joins select   of a roll-up: what stands "before" its list, "from", "where" and
-- "after"; its "keys" as it computes them; "base":
--          by a column's name in it that of the model
create or replace function cdc.compile_dependent(compiled jsonb, tree jsonb, nodes cdc.tree_node[], inner_tree jsonb)
returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    joins constant record := cdc.read_joins(tree, 'model');
    is_roll_up constant boolean := compiled @? '$.state_columns[*].again';
    parts record;
    twice text;
begin
    if exists (
        select from unnest(nodes) as named
        where
            named.type = 'COMMONTABLEEXPR' and named.fields ->> 'cterefcount' not in ('0', '1')
            and exists (
                select from unnest(nodes) as entry
                where
                    starts_with(entry.path, named.path || '.') and entry.type = 'RANGETBLENTRY' and entry.fields ->> 'rtekind' = '0'
                    and cdc.stub_number(entry.fields ->> 'relid') is not null
            )
    ) then
        raise exception 'A CTE that reads a model is used twice.'
            using errcode = 'WL003', hint = 'Name the model twice: a CTE for each use.';
    end if;
    if exists (select from jsonb_array_elements(joins.terms) as term where term.value = '[]') then
        raise exception 'The query reads no model.' using errcode = 'WL003', hint = 'Name a model by ref().';
    end if;
    select input.value ->> 'name' into twice
    from jsonb_object_keys(joins.nullable) as nullable (ordinal)
    cross join lateral (select compiled -> 'sources' -> (nullable.ordinal::integer - 1) as value) as input
    inner join jsonb_array_elements(compiled -> 'sources') with ordinality as other (value, ordinal) on other.value ->> 'model' = input.value ->> 'model'
    inner join jsonb_array_elements(joins.terms) as term on term.value @> jsonb_build_array(nullable.ordinal::integer, other.ordinal)
    where not joins.nullable ? other.ordinal::text
    limit 1;
    if twice is not null then
        raise exception '% stands on both sides of a LEFT JOIN.', twice
            using errcode = 'WL003', hint = 'Write a second model of the same rows, and join that one.';
    end if;
    if is_roll_up and compiled ? 'select' and (inner_tree ->> 'hasTargetSRFs')::boolean then
        raise exception 'A roll-up whose list makes several rows of one.'
            using errcode = 'WL003', hint = 'Unfold the values in FROM: `cross join unnest(o.tags) as tag`.';
    end if;
    compiled := compiled - 'select' - 'added' || jsonb_build_object(
        'kind', case when is_roll_up then 'roll-up' else 'fact' end,
        'sources', '[]'::jsonb,
        'inputs', compiled -> 'sources',
        'joins', jsonb_build_object('terms', joins.terms, 'equal', joins.equal, 'nullable', joins.nullable, 'plain', joins.plain)
    ) || case when is_roll_up and not compiled ? 'group' then jsonb_build_object('select', compiled -> 'select', 'added', compiled -> 'added') else '{}' end;
    if compiled ? 'select' then
        parts := cdc.split_tail(compiled #>> '{select,tail}');
        compiled := jsonb_set(compiled, '{select}', (compiled -> 'select') - 'tail' || jsonb_build_object(
            'from', parts.from_part, 'where', parts.where_part, 'base', cdc.base_columns(tree, inner_tree)
        ));
    end if;
    return compiled;
end
$$;
