{# Keep one index on a key, with these columns beside it: dbt's own `indexes` knows no such columns,
   and makes an index only together with its table. A table that lacks it gets it by its next build;
   one on the same key with other columns is then of no use and goes. #}
{% macro keep_index(key, columns=[]) %}
do $keep_index$
declare
    wanted constant text[] := array['{{ (key + columns) | join("', '") }}'];
    patience constant text := current_setting('lock_timeout');
    is_kept boolean := false;
    present record;
    outdated regclass[] := '{}';
    each_one regclass;
begin
    for present in
        select
            x.indexrelid::regclass as index,
            array(
                select a.attname::text
                from pg_attribute as a
                where a.attrelid = x.indexrelid
                order by a.attnum
            ) as columns
        from pg_index as x
        where
            x.indrelid = '{{ this.include(database=false) }}'::regclass
            and not x.indisunique
            and x.indpred is null
            and x.indnkeyatts = {{ key | length }}
    loop
        if present.columns = wanted then
            is_kept := true;
        elsif present.columns[:{{ key | length }}] = wanted[:{{ key | length }}] then
            outdated := outdated || present.index;
        end if;
    end loop;

    if not is_kept then
        create index on {{ this }} ({{ key | join(', ') }})
        {%- if columns %} include ({{ columns | join(', ') }}){% endif %};
    end if;
    foreach each_one in array outdated loop
        begin
            -- Readers who come later wait behind this: where somebody reads for long, another time.
            perform set_config('lock_timeout', '100ms', true);
            execute format('drop index %s', each_one);
        exception when lock_not_available then
            null;
        end;
        perform set_config('lock_timeout', patience, true);
    end loop;
end
$keep_index$
{% endmacro %}
