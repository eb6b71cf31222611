{# A row of stg_changes for a unit test. `new` and `old` are the images as {column: value};
   make_image adds the other dimensions, so that a test shows only the columns that it is about. #}
{% macro make_change(
    action, new=none, old=none, table='public.notifications', part='live', is_json=true,
    is_undecodable=false, at='0/10'
) %}
select
    'a_slot'::text as slot_name,
    '{{ at }}'::pg_lsn as commit_lsn,
    1::bigint as ordinal,
    1::bigint as xid,
    null::timestamptz as committed_at,
    'as it came'::text as payload,
    {{ is_json }} as is_json,
    {{ is_undecodable }} as is_undecodable,
    {{ "'" ~ action ~ "'" if action else 'null::text' }} as action,
    {{ "'" ~ table ~ "'" if table else 'null::text' }} as source_table,
    {{ "'" ~ part ~ "'" if part else 'null::text' }} as part,
    {{ make_image(old) }} as old_image,
    {{ make_image(new) }} as new_image
{% endmacro %}
