-- What a query over sources, or over models, is, as PostgreSQL understands it: its kind, what it needs of each of
-- them, and what its table has. Everything else reads this result:
--
-- sources, inputs     as given, in which a column that something reads "is_needed"
-- keys                what the query groups by; of a table's rows, its primary key
-- state_columns       of a fact, what is added up for each group: "counted_by" names the number of values of a sum
-- expression_columns  of a fact, columns that are expressions of these
-- collations          by column, one that is not the type's own
-- query               gives keys and state columns, over sources called waltally_source_1, and so on
--
-- Given are:
-- inputs   [{"relation": as the query names it, "name": the table's own, "key": ["id"],
--          "columns": [{"name", "type": as format_type gives it, or other, "exact": with its length, "labels": of an
--          enum, "is_domain", "collation", "collation_is": as table_shape has them}],
--          of a source "table": "schema.table", "is_key_deferrable", "has_old_rows": whether its replica identity
--          carries every column; of a model "model": "schema.table"}]
-- options  {"timezone", "unique_key": [], "ignore_deletes": ["schema.table"], "surrogate_key", "engine",
--          "contract": {"column": "type"}}
--
-- A query that cannot be kept is refused: WL003, with a reason and a remedy a line; PostgreSQL's own errors stay.
create or replace function cdc.compile_query(query text, inputs jsonb, options jsonb default '{}') returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
set row_security from current set quote_all_identifiers = off
set standard_conforming_strings from current
set transform_null_equals from current
set array_nulls from current set timezone_abbreviations from current
set DateStyle from current set IntervalStyle from current set TimeZone from current set xmloption from current
as $$
declare
    is_dependent constant boolean := inputs @? '$[*].model';
    mixture constant text := 'The query reads sources beside models, which change at other moments.';
    named record; read record; tree jsonb;
    nodes cdc.tree_node[];
    needed jsonb;
    unwrapped record;
    compiled jsonb;
    own record;
begin
    if options ? 'timezone' then
        perform cdc.set_zone(options ->> 'timezone');
    end if;
    if is_dependent and inputs @? '$[*] ? (exists (@.table) && !exists (@.columns))' then
        perform cdc.refuse_sources(mixture, '[]', '[]');
    end if;
    perform cdc.require_one_slot(inputs);
    -- dbt and its manifest name them in other orders.
    inputs := (select jsonb_agg(value order by coalesce(value ->> 'table', value ->> 'model') collate "C") from jsonb_array_elements(inputs));
    named := cdc.name_sources(query, inputs);
    read := cdc.read_sources(named.named, named.numbered);
    named.numbered := cdc.rename_columns(named.numbered);
    tree := cdc.parse_tree(read.tree) -> 0;
    nodes := array(select node from cdc.tree_nodes(tree) as node);
    needed := cdc.needed_sources(named.numbered, nodes, options);
    if is_dependent and inputs @? '$[*].table' then
        perform cdc.refuse_sources(mixture, needed, named.numbered);
    end if;
    unwrapped := cdc.unwrap_query(tree);
    select * into own from cdc.find_group(nodes, named.numbered);
    perform cdc.refuse_query(
        named.named, read.tree, nodes, unwrapped.top_path, unwrapped.inner_tree -> 'groupClause' = 'null',
        array(select unwrapped.numbers[ordinal] from jsonb_array_elements(read.columns) with ordinality as one (value, ordinal) where value ? 'is_loose'),
        options ? 'timezone', named.numbered
    );
    compiled := jsonb_build_object('sources', needed, 'timezone', coalesce(options ->> 'timezone', 'UTC'));
    if not is_dependent then
        perform cdc.refuse_joins(tree, needed, named.numbered);
    end if;
    if own.core is not null then
        compiled := compiled || cdc.compile_group(
            read.printed, read.columns, nodes, named.numbered -> 0, own.core, own.kind, own.grouped, unwrapped.top_path, unwrapped.numbers
        );
    elsif (unwrapped.inner_tree ->> 'hasAggs')::boolean or unwrapped.inner_tree -> 'groupClause' <> 'null' then
        compiled := compiled || cdc.compile_fact(
            read.printed, read.columns, unwrapped.inner_tree, unwrapped.steps, unwrapped.names, unwrapped.numbers
        );
    elsif is_dependent then
        raise exception 'A query over models without an aggregate: a table of it would hold what the models hold.'
            using errcode = 'WL003', hint = 'Instead: a view.';
    else
        compiled := compiled || cdc.compile_rows(read.printed, read.columns, nodes, named.numbered, options);
    end if;
    compiled := case when is_dependent
        then cdc.compile_dependent(compiled, tree, nodes, unwrapped.inner_tree) else compiled - 'select' - 'added' end;
    compiled := cdc.complete_model(compiled || jsonb_build_object('collations', read.collations), options);
    perform cdc.check_options(compiled, options);
    perform cdc.drop_stubs(named.numbered);
    return compiled || jsonb_build_object('is_zoned', cdc.is_zoned(nodes));
end
$$;
