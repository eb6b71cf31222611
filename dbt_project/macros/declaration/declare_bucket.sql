{# The buckets of a dimension, by their bounds or by an interval: {bounds, unit, type}. Bounds are texts, each
   with as many decimals as the one that has most; `unit` is as PostgreSQL and the seed take it: 900 seconds. #}
{% macro declare_bucket(name, spec) %}
    {%- do waltally.check_declaration([[
        ('bounds' in spec) == ('every' in spec),
        'dimension ' ~ name ~ " has a bucket_of; it takes either 'bounds': [numbers] or 'every': '15 minutes'",
    ]]) -%}
    {%- if 'every' in spec -%}
        {%- set found = modules.re.fullmatch('([1-9][0-9]{0,4}) (second|minute|hour)s?', spec['every'] | string) -%}
        {%- set seconds = found[1] | int * {'second': 1, 'minute': 60, 'hour': 3600}[found[2]] if found else 0 -%}
        {%- do waltally.check_declaration([[
            not seconds or 86400 % seconds,
            'every of dimension ' ~ name ~ ' is ' ~ spec['every']
            ~ "; it takes hours, minutes or seconds that divide a day, as in '15 minutes'",
        ]]) -%}
        {{ return({'bounds': [], 'unit': seconds ~ ' seconds', 'type': 'timestamptz'}) }}
    {%- endif -%}
    {%- set given = spec['bounds'] -%}
    {%- set named = 'bounds of dimension ' ~ name -%}
    {%- set takes = '; it takes a list of numbers, each larger than the one before, as in [0, 10, 100]' -%}
    {%- do waltally.check_declaration([
        [given is string or given is mapping or given is not iterable or not given, named ~ ' is ' ~ given ~ takes],
    ]) -%}
    {%- set decimals, bounds, wholes = [], [], [] -%}
    {%- for bound in given -%}
        {%- do waltally.check_declaration([
            [bound is boolean or not waltally.is_number(bound), named ~ ' has ' ~ bound ~ takes],
        ]) -%}
        {%- do decimals.append((bound | string).partition('.')[2].rstrip('0') | length) -%}
    {%- endfor -%}
    {%- for bound in given -%}
        {%- set whole, _, fraction = (bound | string).partition('.') -%}
        {%- set digits = fraction.rstrip('0').ljust(decimals | max, '0') -%}
        {%- set number = (whole ~ digits) | int -%}
        {%- do waltally.check_declaration([[wholes and number <= wholes[-1], named ~ ' has ' ~ bound ~ takes]]) -%}
        {%- do wholes.append(number) -%}
        {%- do bounds.append(
            ('-' if whole[0] == '-' and number != 0 else '')
            ~ modules.re.sub('^-?0*(?=[0-9])', '', whole) ~ ('.' ~ digits if digits else '')
        ) -%}
    {%- endfor -%}
    {%- set digits = bounds | map('replace', '-', '') | map('replace', '.', '') | map('length') | max -%}
    {{ return({
        'bounds': bounds,
        'unit': none,
        'type': 'bigint' if not decimals | max and digits < 19 else 'numeric(' ~ digits ~ ', ' ~ decimals | max ~ ')',
    }) }}
{% endmacro %}
