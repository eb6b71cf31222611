{# One measure: {name, kind, columns, of, type, where}. A count has no columns, a product two. #}
{% macro declare_measure(name, spec, tables) %}
    {%- do waltally.check_declaration([[
        spec is not mapping or ('count' in spec) == ('sum' in spec),
        'measure ' ~ name ~ ' is ' ~ (spec | join(', ') if spec is mapping else spec)
        ~ "; use {'count': table} or {'sum': column}: what a row adds must be taken back when the row "
        ~ 'goes, which a minimum, a maximum, an average or a number of distinct values does not allow; a roll_up '
        ~ 'of the fact has those',
    ]]) -%}
    {%- set is_count = 'count' in spec -%}
    {%- do waltally.check_keys(
        'measure ' ~ name, spec, ['count', 'where'] if is_count else ['sum', 'of', 'type', 'where']
    ) -%}
    {%- set names = tables | map(attribute='name') | list -%}
    {%- set summed = spec.get('sum') -%}
    {%- set factors = [summed] if summed is string else
        summed['product'] if summed is mapping and summed | list == ['product']
        and summed['product'] is not string and summed['product'] is sequence and summed['product'] | length == 2
        else [] -%}
    {%- set of = spec['count'] if is_count else spec.get('of') -%}
    {%- set of = names if of is none else [of] if of is string else of -%}
    {%- do waltally.check_declaration([
        [
            of is mapping or of is not iterable or not of or of | reject('in', names) | list,
            'measure ' ~ name ~ ' is of ' ~ (of | join(', ') if of is iterable else of)
            ~ '; use one of the tables ' ~ names | join(', ') ~ ', or none for all',
        ],
        [
            not is_count and (not factors or factors | reject('string') | list),
            'sum of measure ' ~ name ~ ' is ' ~ summed ~ "; use a column, or {'product': [column, column]}",
        ],
    ]) -%}
    {%- set type = 'bigint' if is_count else waltally.name_type(spec.get('type', 'numeric')) -%}
    {#- The seed remembers purged rows by group: of two such tables it could not tell whose. -#}
    {%- set ignoring = tables | selectattr('deletes', 'equalto', 'ignore')
        | selectattr('name', 'in', of) | map(attribute='name') | list -%}
    {%- do waltally.check_declaration([
        [
            ignoring | length > 1,
            'measure ' ~ name ~ ' adds up ' ~ ignoring | join(' and ')
            ~ '; use one table at most whose deletes are ignored',
        ],
        [
            type not in ['bigint', 'numeric'] and not waltally.is_numeric_type(type),
            'measure ' ~ name ~ ' is of type ' ~ type
            ~ '; a sum is numeric, numeric(p, s) or bigint, because any other type would round it',
        ],
    ]) -%}
    {{ return({
        'name': name,
        'kind': 'count' if is_count else 'sum',
        'columns': factors | list,
        'of': of | list,
        'type': type,
        'where': waltally.declare_conditions(spec.get('where', {}), ' of measure ' ~ name),
    }) }}
{% endmacro %}
