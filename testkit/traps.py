"""A trap for each name of pg_catalog: whoever looks a name up in its schema gets an error."""

from __future__ import annotations

_TRAPS = """
do $traps$
declare
    place constant text := '{schema}';
    made record;
    missed integer := 0;
begin
    create function {schema}.sprung(name text) returns boolean language plpgsql as
    $$begin raise exception 'a name was looked up in {schema}: %', name; end$$;
    create function {schema}.sprung(boolean) returns boolean language sql as
    $$select {schema}.sprung('count(*)')$$;
    create aggregate {schema}.count(*) (sfunc = {schema}.sprung, stype = boolean);
    for made in
        select format(
            case when p.prokind = 'a'
                then
                    'create function %1$I.%2$I(boolean, %3$s) returns boolean '
                    'language plpgsql as %6$L; '
                    'create aggregate %1$I.%4$I(%3$s) (sfunc = %1$I.%2$I, stype = boolean)'
                else 'create function %1$I.%4$I(%3$s) returns %5$s language plpgsql as %6$L'
            end,
            place,
            'sprung_' || p.oid,
            pg_get_function_identity_arguments(p.oid),
            p.proname,
            case when p.proretset then 'setof ' else '' end || p.prorettype::regtype,
            format('begin perform %I.sprung(%L); end', place, p.oid::regprocedure)
        ) as statement
        from pg_proc as p
        where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind in ('f', 'a', 'w')
        union all
        select format(
            'create function %1$I.%2$I(%3$s) returns %4$s language plpgsql as %5$L; '
            'create operator %1$I.%6$s (%7$s, function = %1$I.%2$I)',
            place,
            'sprung_' || o.oid,
            concat_ws(', ', nullif(o.oprleft, 0)::regtype, o.oprright::regtype),
            o.oprresult::regtype,
            format('begin perform %I.sprung(%L); end', place, o.oid::regoperator),
            o.oprname,
            'rightarg = ' || o.oprright::regtype
            || coalesce(', leftarg = ' || nullif(o.oprleft, 0)::regtype, '')
        )
        from pg_operator as o
        where o.oprnamespace = 'pg_catalog'::regnamespace
        union all
        select format(
            'create view %1$I.%2$I as select * from pg_catalog.%2$I where %1$I.sprung(%2$L); '
            'grant select on %1$I.%2$I to public', place, c.relname
        )
        from pg_class as c
        where c.relnamespace = 'pg_catalog'::regnamespace and c.relkind in ('r', 'v')
        union all
        select format(
            'create domain %1$I.%2$I as pg_catalog.%2$I check (%1$I.sprung(%2$L))', place, t.typname
        )
        from pg_type as t
        where
            t.typnamespace = 'pg_catalog'::regnamespace
            and t.typtype = 'b' and t.typcategory <> 'A'
    loop
        begin
            execute made.statement;
        exception
            -- A function of a pseudo-type, a view of a column with one, an ordered-set aggregate.
            when others then
                missed := missed + 1;
        end;
    end loop;
    -- Nobody may make functions of cstring and internal, which planner, types and indexes call.
    if missed > 1000 then
        raise exception '% traps are missing', missed;
    end if;
end
$traps$
"""


def traps(schema: str) -> str:
    """Return SQL that sets the traps in a schema that is there; it takes some seconds."""
    return _TRAPS.replace("{schema}", schema)
