{# Print a fact as a semantic model of dbt (MetricFlow), with a metric for each measure:
   dbt --quiet run-operation print_semantic_model --args '{fact: ft_orders}' > models/ft_orders_metrics.yml
   dbt runs Jinja in that file. So a column is left out whose name has braces, which MetricFlow takes in no name. #}
{% macro print_semantic_model(fact) %}
    {%- set node = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model')
        | selectattr('name', 'equalto', fact) | first -%}
    {%- set declared = (node or {}).get('config', {}).get('meta', {}).get('waltally', {}) -%}
    {%- set dimensions = [] -%}
    {%- for given in declared.get('dimensions', []) if modules.re.search('[{}]', given.name) is none -%}
        {%- set dimension = {'name': given.name, 'expr': given.name, 'type': 'categorical'} -%}
        {%- if given.name | lower in ['second', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year'] -%}
            {#- MetricFlow keeps these for itself. -#}
            {%- do dimension.update({'name': 'in_' ~ given.name}) -%}
        {%- endif -%}
        {%- if given.type == 'date' or given.type.startswith('timestamp') -%}
            {%- set granularity = 'day' if given.type == 'date' else 'second' -%}
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
    {%- for measure in declared.measures if modules.re.search('[{}]', measure.name) is none -%}
        {#- A name is unique in the whole project. -#}
        {%- do measures.append({
            'name': fact ~ '_' ~ measure.name, 'expr': measure.name, 'agg': 'sum', 'create_metric': true,
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
