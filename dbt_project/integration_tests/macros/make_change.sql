{# A row of the change log for a unit test, with the change as wal2json prints it. `new` and `old`
   are the images as {column: value}; make_image adds the other columns of the table, so that a test
   shows only those that it is about. `more` are further fields. `spaced` prints the JSON with
   blanks, as wal2json does not. #}
{% macro make_change(
    action, new=none, old=none, table='public.notifications', more={}, spaced=false, at='0/10',
    ordinal=1
) %}
    {%- set fields = [] -%}
    {%- if action -%}{%- do fields.append('"action":' ~ tojson(action)) -%}{%- endif -%}
    {%- if table -%}
        {%- do fields.append('"schema":' ~ tojson(table.split('.')[0])) -%}
        {%- do fields.append('"table":' ~ tojson(table.split('.')[1])) -%}
    {%- endif -%}
    {%- if new is not none -%}
        {%- do fields.append('"columns":' ~ make_image(new, table)) -%}
    {%- endif -%}
    {%- if old is not none -%}
        {%- do fields.append('"identity":' ~ make_image(old, table)) -%}
    {%- endif -%}
    {%- for name, value in more.items() -%}
        {%- do fields.append(tojson(name) ~ ':' ~ tojson(value)) -%}
    {%- endfor -%}
    {%- set is_plain = not spaced and not more and table and (
        action == 'T'
        or (action in ['I', 'U'] and new is not none)
        or (action == 'D' and old is not none)
    ) -%}
    {%- set payload = '{' ~ fields | join(',') ~ '}' -%}
    {{ make_payload(
        payload | replace('":', '": ') | replace('},{', '}, {') if spaced else payload,
        action if is_plain else none,
        at,
        ordinal,
    ) }}
{% endmacro %}
