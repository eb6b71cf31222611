{# Check what a model says in waltally.roll_up() and return it in full. What its columns are is known once dbt
   has parsed the whole project: resolve_roll_up. Its fact is the first of the model's refs, the rows of the
   lookups are those after it. #}
{% macro declare_roll_up(dimensions, measures, lookups, present, derived) %}
    {%- if dimensions is not mapping or not dimensions -%}
        {%- do waltally.refuse_declaration(
            'dimensions is ' ~ dimensions ~ "; it takes {column: column of the fact or 'lookup.column'}, one or more"
        ) -%}
    {%- elif measures is not mapping or not measures -%}
        {%- do waltally.refuse_declaration(
            'measures is ' ~ measures ~ '; it takes {column: {kind: column}}, one or more'
        ) -%}
    {%- elif lookups is not mapping -%}
        {%- do waltally.refuse_declaration(
            'lookups is ' ~ lookups ~ "; it takes {name: {'rows': ref(...), 'by': {column of the key: column}}}"
        ) -%}
    {%- elif present is not none and present is not string -%}
        {%- do waltally.refuse_declaration('present is ' ~ present ~ '; it takes a measure of the fact') -%}
    {%- endif -%}
    {%- set declared = {
        'version': 1, 'lookups': [], 'dimensions': [], 'measures': [], 'present': present, 'derived': derived
    } -%}
    {%- for name, given in lookups.items() -%}
        {%- do waltally.check_name('a lookup', name) -%}
        {%- if given is not mapping or given.keys() | sort != ['by', 'rows']
            or given.by is not mapping or not given.by or given.by.values() | reject('string') | list -%}
            {%- do waltally.refuse_declaration(
                'lookup ' ~ name ~ " takes {'rows': ref(...), 'by': {column of the key: column}}"
            ) -%}
        {%- endif -%}
        {%- do declared.lookups.append({'name': name, 'by': given.by}) -%}
    {%- endfor -%}
    {%- for name, of in dimensions.items() -%}
        {%- if of is not string -%}
            {%- do waltally.refuse_declaration(
                'dimension ' ~ name ~ ' is ' ~ of ~ "; it takes a column of the fact or 'lookup.column'"
            ) -%}
        {%- endif -%}
        {%- do declared.dimensions.append({'name': name, 'of': of, 'nulls': 'count', 'type': 'text'}) -%}
    {%- endfor -%}
    {%- for name, spec in measures.items() -%}
        {%- set kinds = spec.keys() | select('in', ['sum', 'distinct', 'min', 'max', 'percentile']) | list
            if spec is mapping else [] -%}
        {%- if kinds | length != 1 -%}
            {%- do waltally.refuse_declaration(
                'measure ' ~ name ~ ' is ' ~ spec ~ '; it takes one of sum, distinct, min, max and percentile'
            ) -%}
        {%- endif -%}
        {%- set kind = kinds[0] -%}
        {%- do waltally.refuse_unknown_keys(
            'measure ' ~ name, spec, ['percentile', 'of'] if kind == 'percentile' else [kind]
        ) -%}
        {%- set of = spec.get('of') if kind == 'percentile' else spec[kind] -%}
        {%- if of is not string -%}
            {%- do waltally.refuse_declaration('measure ' ~ name ~ ' is of ' ~ of ~ '; it takes a column') -%}
        {%- elif kind == 'percentile' and (spec.percentile is not number or not 0 <= spec.percentile <= 1) -%}
            {%- do waltally.refuse_declaration(
                'percentile of measure ' ~ name ~ ' is ' ~ spec.percentile ~ '; it takes a number from 0 to 1'
            ) -%}
        {%- endif -%}
        {%- do declared.measures.append({
            'name': name, 'kind': kind, 'of': of, 'fraction': spec.percentile if kind == 'percentile' else none
        }) -%}
    {%- endfor -%}
    {%- do waltally.check_names(declared, derived) -%}
    {{ return(declared) }}
{% endmacro %}
