{# A row of stg_changes for a unit test: {column: value} for the images, values as JSON text.
   The images' other dimensions are `dimensions`, so that a test shows what it is about. #}
{% macro staged_change(
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
    {{ unit_test_image(old) }} as old_image,
    {{ unit_test_image(new) }} as new_image
{% endmacro %}

{# A row's image: the four dimensions, changed as the test says; `absent` names those left out,
   and `spaced` has it printed as the plugin does not. #}
{% macro unit_test_image(changed) %}
    {%- if changed is none -%}
        null::text
    {%- else -%}
        {%- set row = {
            'service_id': '11111111-1111-1111-1111-111111111111',
            'template_id': '22222222-2222-2222-2222-222222222222',
            'notification_type': 'email',
            'notification_status': 'created',
        } -%}
        {%- do row.update(changed) -%}
        {%- set absent = row.pop('absent', []) -%}
        {%- set space = ' ' if row.pop('spaced', false) else '' -%}
        {%- set image = [] -%}
        {%- for name, value in row.items() if name not in absent -%}
            {%- do image.append(
                '{"name":' ~ space ~ tojson(name) ~ ',"value":' ~ space ~ tojson(value) ~ '}'
            ) -%}
        {%- endfor -%}
        '[{{ image | join(',') | replace("'", "''") }}]'
    {%- endif -%}
{% endmacro %}

{# The rows of stg_truncates for a unit test: none, or one of the live part. #}
{% macro staged_truncate(at=none) %}
select
    'live'::text as part,
    '{{ at or '0/0' }}'::pg_lsn as commit_lsn,
    1::bigint as ordinal
where {{ at is not none }}
{% endmacro %}
