{# SQL text, for a row with its plugin_action: the part of the payload that holds the old image, as
   read_image_value searches it. wal2json prints the columns before the identity, so the new image
   is what comes before. Where there is only one image, the whole text is searched.

   Not by strpos: on a long text it counts the characters up to what it finds. #}
{% macro cut_old_image() -%}
    case plugin_action
        when 'I' then null
        when 'U' then nullif(split_part(payload, ',"identity":[', 2), '')
        when 'D' then payload
        else (message -> 'identity')::text
    end
{%- endmacro %}
