-- SQL: a statement that fills a fact's table, or adds to it, again where a key is too long for an index.
create or replace function cdc.write_long(compiled jsonb, relation text, statement text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case when cdc.key_hash(compiled) is null then statement else format(
$template$loop
            begin
                %s
                exit;
            exception
                when program_limit_exceeded then
                    if not cdc.lengthen_keys(%L, %L) then
                        raise;
                    end if;
            end;
        end loop;$template$,
        statement, relation, cdc.key_hash(compiled)
    ) end
$$;
