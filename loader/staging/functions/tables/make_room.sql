-- After an error of a value that does not fit a model's table, let the table have it. False if nothing is left to
-- change: then something else did not fit. A key that is too long for an index gets one by its `hash` in place of that
-- by its columns; readers wait only from the second statement on. A length that was widened at the source goes.
create or replace function cdc.make_room(target regclass, hash text, state text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    own_key constant text := (
        select c.conname
        from pg_constraint as c
        inner join pg_index as x on x.indexrelid = c.conindid
        where c.conrelid = target and c.contype = 'u' and x.indnullsnotdistinct and state = '54000' and hash is not null
    );
    roomy constant jsonb := (
        select jsonb_agg(jsonb_build_array(a.attname, concat_ws(
            ' ', cdc.plain_type(a.atttypid), 'collate ' || nullif(a.attcollation, 0)::regcollation::text,
            case when a.attnotnull then 'not null' end, 'generated always as (' || pg_get_expr(d.adbin, d.adrelid) || ') stored'
        )) order by a.attnum)
        from pg_attribute as a
        left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum and a.attgenerated <> ''
        where a.attrelid = target and a.attnum > 0 and not a.attisdropped and state in ('22001', '22003', '22026')
        having bool_or(a.atttypmod <> -1)
    );
begin
    if own_key is not null then
        execute format('create index on %s ((%s))', target, hash);
        execute format('alter table %s drop constraint %I', target, own_key);
    elsif roomy is not null then
        perform cdc.widen_table(target, roomy);
    end if;
    return own_key is not null or roomy is not null;
end
$$;
