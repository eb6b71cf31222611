{# Whether a dimension may be of this type: a value of it prints in one way only. #}
{% macro is_dimension_type(type) %}
    {{ return(
        type in [
            'uuid', 'text', 'boolean', 'smallint', 'integer', 'bigint', 'date', 'timestamp',
            'timestamptz',
        ]
        or waltally.is_numeric_type(type)
    ) }}
{% endmacro %}
