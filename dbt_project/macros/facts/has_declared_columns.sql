{# Whether the model's table is there with the declared key, dimensions and measures. Where the
   declaration has changed them, nothing can be added to the table's rows. #}
{% macro has_declared_columns(declared) %}
    {%- if not execute or load_cached_relation(this) is none -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set printed = {
        'timestamp': 'timestamp without time zone',
        'timestamptz': 'timestamp with time zone',
    } -%}
    {%- set stored, key = {}, {} -%}
    {%- for name, type, place in waltally.look_at_columns(waltally.name_key(declared)) -%}
        {%- do stored.update({name: type}) -%}
        {%- if place -%}{%- do key.update({place: name}) -%}{%- endif -%}
    {%- endfor -%}
    {%- set measures = declared.measures if declared.kind == 'fact' else [] -%}
    {%- set columns = declared.dimensions + measures -%}
    {%- set different = [] -%}
    {%- for column in columns
        if stored.get(column.name) != printed.get(column.type, column.type | replace(' ', '')) -%}
        {%- do different.append(column.name) -%}
    {%- endfor -%}
    {%- set found = [] -%}
    {%- for place in key | sort -%}{%- do found.append(key[place]) -%}{%- endfor -%}
    {{ return(not different and found == waltally.list_key(declared)) }}
{% endmacro %}
