{# What ft_service_stats counts by: {column: type}. #}
{% macro service_dimensions() %}
    {{ return({
        'service_id': 'uuid',
        'template_id': 'uuid',
        'notification_type': 'text',
        'notification_status': 'text',
    }) }}
{% endmacro %}
