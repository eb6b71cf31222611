{# SQL text: a column of a source table as the text that the stream has of it. Its own collation may
   take two texts for equal. #}
{% macro recount_text(column) -%}
    (
        case
            {#- Not `is null`: a composite value is that where all its fields are. #}
            when num_nulls({{ column }}) = 1 then null
            when pg_typeof({{ column }})::text = 'boolean' then {{ column }}::text
            when pg_typeof({{ column }})::text = 'bytea' then substr(concat({{ column }}), 3)
            when pg_typeof({{ column }})::text in ('real', 'double precision') then concat({{ column }})::numeric::text
            else concat({{ column }})
        end collate "C"
    )
{%- endmacro %}
