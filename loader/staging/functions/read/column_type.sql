-- The type of a column: as SQL writes it without a length, `exact` where it has one, and whether values may be equal
-- and look otherwise.
create or replace function cdc.column_type(own pg_attribute) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return jsonb_build_object('type', cdc.plain_type(own.atttypid))
        || case when own.atttypmod = -1 then '{}' else jsonb_build_object('exact', format_type(own.atttypid, own.atttypmod)) end
        || case when exists (
            select from pg_type as t
            inner join pg_opclass as o on o.opcintype = case when t.typsubscript = 'array_subscript_handler'::regproc then t.typelem else t.oid end
            where t.oid = own.atttypid and o.opcdefault
            having bool_or(o.opcmethod = 403) and not bool_or(o.opcmethod = 405)
        ) then '{"has_no_hash": true}' else '{}' end::jsonb
        || case when cdc.equal_is_identical(own.atttypid, own.atttypmod, own.attcollation) then '{}' else '{"is_loose": true}' end::jsonb;
end
$$;
