{# The dimensions of ft_service_stats: {column: type}. #}
{% macro get_service_dimensions() %}
    {{ return({
        'service_id': 'uuid',
        'template_id': 'uuid',
        'notification_type': 'text',
        'notification_status': 'text',
    }) }}
{% endmacro %}
