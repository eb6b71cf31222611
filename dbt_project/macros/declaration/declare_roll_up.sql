{# Check what a model says in waltally.roll_up() and return it in full. What its columns are, and which
   models fact and rows name, is known once dbt has parsed the whole project: resolve_roll_up. #}
{% macro declare_roll_up(dimensions, measures, lookups, present, derived) %}
    {%- do waltally.check_declaration([
        [
            dimensions is not mapping or not dimensions,
            'dimensions is ' ~ dimensions ~ "; use {column: column of the fact or 'lookup.column'}, one or more",
        ],
        [
            measures is not mapping or not measures,
            'measures is ' ~ measures ~ '; use {column: {kind: column}}, one or more',
        ],
        [
            lookups is not mapping,
            'lookups is ' ~ lookups ~ "; use {name: {'rows': ref(...), 'by': {column of the key: column}}}",
        ],
        [
            present is not none and present is not string,
            'present is ' ~ present ~ '; use a measure of the fact',
        ],
    ]) -%}
    {%- set declared = {
        'version': 1, 'lookups': [], 'dimensions': [], 'measures': [], 'present': present, 'derived': derived
    } -%}
    {%- for name, given in lookups.items() -%}
        {%- do waltally.check_name('a lookup', name) -%}
        {%- do waltally.check_declaration([[
            given is not mapping or given | sort != ['by', 'rows']
            or given.by is not mapping or not given.by or given.by.values() | reject('string') | list,
            'lookup ' ~ name ~ " takes {'rows': ref(...), 'by': {column of the key: column}}",
        ]]) -%}
        {%- do declared.lookups.append({'name': name, 'by': given.by}) -%}
    {%- endfor -%}
    {%- for name, of in dimensions.items() -%}
        {%- do waltally.check_declaration([[
            of is not string,
            'dimension ' ~ name ~ ' is ' ~ of ~ "; use a column of the fact or 'lookup.column'",
        ]]) -%}
        {%- do declared.dimensions.append({'name': name, 'of': of, 'nulls': 'count', 'type': 'text'}) -%}
    {%- endfor -%}
    {%- for name, spec in measures.items() -%}
        {%- set kinds = ['sum', 'distinct', 'min', 'max', 'percentile'] | select('in', spec) | list
            if spec is mapping else [] -%}
        {%- do waltally.check_declaration([[
            kinds | length != 1,
            'measure ' ~ name ~ ' is ' ~ spec ~ '; use one of sum, distinct, min, max and percentile',
        ]]) -%}
        {%- set kind = kinds[0] -%}
        {%- set fraction = spec.get('percentile') -%}
        {%- set of = spec.get('of') if kind == 'percentile' else spec[kind] -%}
        {%- set type = waltally.name_type(spec.type) if kind == 'sum' and 'type' in spec else none -%}
        {%- do waltally.check_keys('measure ' ~ name, spec, {
            'percentile': ['percentile', 'of'], 'sum': ['sum', 'type'],
        }.get(kind, [kind])) -%}
        {%- do waltally.check_declaration([
            [of is not string, 'measure ' ~ name ~ ' is of ' ~ of ~ '; use a column'],
            [
                kind == 'percentile' and (fraction is not number or not 0 <= fraction <= 1),
                'percentile of measure ' ~ name ~ ' is ' ~ fraction ~ '; use a number from 0 to 1',
            ],
            [
                type not in [none, 'bigint', 'numeric'] and not waltally.is_numeric_type(type),
                'measure ' ~ name ~ ' is of type ' ~ type
                ~ '; a sum is numeric, numeric(p, s) or bigint, because any other type would round it',
            ],
        ]) -%}
        {%- do declared.measures.append({'name': name, 'kind': kind, 'of': of, 'fraction': fraction, 'type': type}) -%}
    {%- endfor -%}
    {%- do waltally.check_names(declared, derived) -%}
    {{ return(declared) }}
{% endmacro %}
