{# The image of a row: the four dimensions, changed as the test says. `absent` names the columns to
   leave out. `spaced` prints the JSON with blanks, as wal2json does not. #}
{% macro make_image(changed) %}
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
