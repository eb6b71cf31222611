-- Which columns of tables the variables of a query stand for, however many CTEs, sub-selects and joins hand them up: by
-- the variable's path, the table's oid and the attribute number. One that a lateral sub-select hands up is a variable
-- of its own: its join may make it null.
create or replace function cdc.follow_columns(nodes cdc.tree_node[])
returns table (variable text, relation oid, column_number integer)
language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    with recursive known as materialized (
        select path, is_outer, relation, column_number, regexp_replace(target, '(\.targetList\.[0-9]+)$', '\1.expr') as target
        from cdc.read_variables(nodes)
    ),

    followed as (
        select known.path as variable, known.relation, known.column_number, known.target from known
        union all
        select followed.variable, known.relation, known.column_number, known.target
        from followed
        inner join known on known.path = followed.target and not known.is_outer
    )

    select followed.variable, followed.relation, followed.column_number from followed where followed.relation <> 0
$$;
