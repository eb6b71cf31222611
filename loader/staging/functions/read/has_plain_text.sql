-- Whether a type's values have one spelling, whatever is set: then they may be cast to text and back.
create or replace function cdc.has_plain_text(type_oid oid, is_input boolean default false) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select coalesce(
            case
                when t.oid in ('timestamptz'::regtype, 'money'::regtype) then false
                when t.typtype = 'b' and t.typelem <> 0 and t.typsubscript = 'array_subscript_handler'::regproc
                    then cdc.has_plain_text(t.typelem, is_input)
                when t.typtype = 'r'
                    then cdc.has_plain_text((select r.rngsubtype from pg_range as r where r.rngtypid = t.oid), is_input)
                when t.typtype = 'm'
                    then cdc.has_plain_text((select r.rngsubtype from pg_range as r where r.rngmultitypid = t.oid), is_input)
                when t.oid = 'cdc.other_value'::regtype then not is_input
                when t.typtype = 'c' or t.oid = 'record'::regtype then false
                when t.typtype = 'e' then true
                -- Sessions of ours pin how they are printed; they are read in other ways too.
                when t.oid in ('date'::regtype, 'timestamp'::regtype, 'interval'::regtype) then not is_input
                else (
                    select p.provolatile = 'i' from pg_proc as p
                    where p.oid = case when is_input then t.typinput else t.typoutput end
                )
            end,
            false
        )
        from pg_type as t
        where t.oid = type_oid
    );
end
$$;
