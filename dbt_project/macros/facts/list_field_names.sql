{# What read_fields says of a change besides its values. #}
{% macro list_field_names() %}
    {{ return([
        'part', 'action', 'source_table', 'is_json', 'is_undecodable', 'lacks_old', 'is_cancelled'
    ]) }}
{% endmacro %}
