{# SQL text, for a row of the change log: the action of a change that is printed exactly as wal2json
   prints it, so that its images can be cut out of the text; null for any other text.

   The loader notes the action of what it stages. A row without it was written by hand or by an
   older loader: its beginning tells. #}
{% macro find_plugin_action() -%}
    case
            when action is not null then action::text
            when
                message is not null
                and left(payload, 500) ~ '^{"action":"[IU]",("[a-z]+":("[^"\\]*"|\d+),)+"columns":\['
                then substr(payload, 12, 1)
            when
                message is not null
                and left(payload, 500) ~ '^{"action":"D",("[a-z]+":("[^"\\]*"|\d+),)+"identity":\['
                then 'D'
        end
{%- endmacro %}
