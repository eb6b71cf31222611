{# Refuse keys of a dimension that do not stand beside each other. #}
{% macro check_dimension_keys(name, spec, kind) %}
    {%- for key, owner in [('of', 'path'), ('bounds', 'bucket_of'), ('every', 'bucket_of')]
        if key in spec and kind != owner -%}
        {%- do waltally.refuse_declaration('dimension ' ~ name ~ ' has ' ~ key ~ ', which only ' ~ owner ~ ' takes') -%}
    {%- endfor -%}
    {%- if 'labels' in spec and kind not in ['column', 'path'] -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ ' has labels beside ' ~ kind ~ '; a column or a path takes them'
        ) -%}
    {%- elif kind == 'bucket_of' and ('bounds' in spec) == ('every' in spec) -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ " has a bucket_of; it takes either 'bounds': [numbers] or 'every': '15 minutes'"
        ) -%}
    {%- elif kind == 'path' and (
        spec['path'] is string or spec['path'] is mapping or spec['path'] is not iterable or not spec['path']
        or spec['path'] | reject('string') | reject('integer') | list
        or spec['path'] | select('in', [true, false]) | select('boolean') | list
    ) -%}
        {%- do waltally.refuse_declaration(
            'path of dimension ' ~ name ~ ' is ' ~ spec['path'] ~ "; it takes a list of keys, as in ['address', 'city']"
        ) -%}
    {%- elif kind == 'path' and spec.get('of') is not string -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ " has a path; it takes 'of': the json or jsonb column that it is in"
        ) -%}
    {%- endif -%}
{% endmacro %}
