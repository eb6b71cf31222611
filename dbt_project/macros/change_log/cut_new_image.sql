{# SQL text: the part of the payload that holds the new image; see cut_old_image. #}
{% macro cut_new_image() -%}
    case plugin_action
        when 'I' then payload
        when 'U' then split_part(payload, ',"identity":[', 1)
        when 'D' then null
        else (message -> 'columns')::text
    end
{%- endmacro %}
