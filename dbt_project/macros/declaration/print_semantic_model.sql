{# Print a fact as a semantic model of dbt (MetricFlow), with a metric for each measure:
   dbt --quiet run-operation print_semantic_model --args '{fact: ft_orders}' > models/ft_orders_metrics.yml #}
{% macro print_semantic_model(fact) %}
    {%- set node = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model')
        | selectattr('name', 'equalto', fact) | first -%}
    {%- set declared = waltally.describe_columns(node) -%}
    {%- set dimensions = [] -%}
    {%- for column, type in declared.dimensions.items() -%}
        {%- set dimension = {'name': column, 'expr': column, 'type': 'categorical'} -%}
        {%- if column | lower in ['second', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year'] -%}
            {#- MetricFlow keeps these for itself. -#}
            {%- do dimension.update({'name': 'in_' ~ column}) -%}
        {%- endif -%}
        {%- if type == 'date' or type.startswith('timestamp') -%}
            {%- set granularity = 'day' if type == 'date' else 'second' -%}
            {%- do dimension.update({'type': 'time', 'type_params': {'time_granularity': granularity}}) -%}
        {%- endif -%}
        {%- do dimensions.append(dimension) -%}
    {%- endfor -%}
    {%- set times = dimensions | selectattr('type', 'equalto', 'time') | list -%}
    {%- if declared.kind != 'fact' or not times -%}
        {%- do exceptions.raise_compiler_error(
            fact ~ ' is no fact with a dimension that is a date or a time; MetricFlow adds up measures over time'
        ) -%}
    {%- endif -%}
    {%- set measures = [] -%}
    {%- for measure in declared.measures -%}
        {#- A name is unique in the whole project. -#}
        {%- do measures.append({
            'name': fact ~ '_' ~ measure, 'expr': measure, 'agg': 'sum', 'create_metric': true,
        }) -%}
    {%- endfor -%}
    {%- do print(toyaml({'semantic_models': [{
        'name': fact,
        'model': "ref('" ~ fact ~ "')",
        'primary_entity': fact ~ '_group',
        'defaults': {'agg_time_dimension': times[0].name},
        'dimensions': dimensions,
        'measures': measures,
    }]}, sort_keys=false)) -%}
{% endmacro %}
