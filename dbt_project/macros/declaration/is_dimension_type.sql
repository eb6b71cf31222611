{# Whether a dimension may be of this type: a value of it prints in one way only. #}
{% macro is_dimension_type(type) %}
    {%- set numeric = modules.re.fullmatch('numeric[(](\\d+), ?(\\d+)[)]', type) if type is string -%}
    {{ return(
        type in [
            'uuid', 'text', 'boolean', 'smallint', 'integer', 'bigint', 'date', 'timestamp',
            'timestamptz',
        ]
        or (numeric and numeric[2] | int <= numeric[1] | int and 0 < numeric[1] | int <= 1000)
    ) }}
{% endmacro %}
