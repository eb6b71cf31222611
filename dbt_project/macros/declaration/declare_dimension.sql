{# One dimension: {name, type, kind, column, unit, timezone, column_timezone, path, bounds, labels, other_label,
   value_type, nulls}. `unit` is that of a period: day, hour, week, month, quarter, year or a number of seconds; `value_type`
   that of a value before it gets its label; `other_label` what a value without a label is called. #}
{% macro declare_dimension(name, given) %}
    {%- set named = 'dimension ' ~ name -%}
    {%- set spec = {'type': waltally.name_type(given)} if given is string else given -%}
    {%- do waltally.check_declaration([[
        spec is not mapping,
        named ~ ' is ' ~ given ~ "; use an SQL type, {'type': 'date', 'date_of': column, 'timezone': name} "
        ~ "or {'from': 'slot'}",
    ]]) -%}
    {%- do waltally.check_keys(named, spec, [
        'type', 'date_of', 'hour_of', 'week_of', 'month_of', 'quarter_of', 'year_of', 'bucket_of', 'bounds', 'every',
        'path', 'of', 'labels', 'else', 'timezone', 'column_timezone', 'from', 'nulls'
    ]) -%}
    {%- set units = {
        'date_of': 'day', 'hour_of': 'hour', 'week_of': 'week', 'month_of': 'month', 'quarter_of': 'quarter',
        'year_of': 'year',
    } -%}
    {%- set kinds = (units | list + ['from', 'bucket_of', 'path']) | select('in', spec) | list -%}
    {%- set kind = kinds[0] if kinds else 'column' -%}
    {%- set path = spec.get('path') -%}
    {%- for key, owner in [('of', 'path'), ('bounds', 'bucket_of'), ('every', 'bucket_of')]
        if key in spec and kind != owner -%}
        {%- do waltally.refuse_declaration(named ~ ' has ' ~ key ~ ', which only ' ~ owner ~ ' takes') -%}
    {%- endfor -%}
    {%- do waltally.check_declaration([
        [kinds | length > 1, named ~ ' has ' ~ kinds | join(' and ') ~ '; use one of them'],
        [
            'labels' in spec and kind not in ['column', 'path'],
            named ~ ' has labels beside ' ~ kind ~ '; a column or a path takes them',
        ],
        [
            'else' in spec and 'labels' not in spec,
            named ~ " has else, and no labels; write 'labels': {value: name} together with it",
        ],
        [
            kind == 'path' and (path is string or path is mapping or path is not iterable or not path),
            'path of ' ~ named ~ ' is ' ~ path ~ "; use a list of keys, as in ['address', 'city']",
        ],
        [
            kind == 'path' and path is iterable
            and (path | reject('string') | reject('integer') | list or path | select('boolean') | list),
            'path of ' ~ named ~ ' is ' ~ path ~ "; use a list of keys, as in ['address', 'city']",
        ],
        [
            kind == 'path' and spec.get('of') is not string,
            named ~ " has a path; use 'of': the json or jsonb column that it is in",
        ],
        [kind == 'from' and spec['from'] != 'slot', named ~ ' is from ' ~ spec['from'] ~ "; use 'slot'"],
        [
            kind in units | list + ['bucket_of'] and spec[kind] is not string,
            kind ~ ' of ' ~ named ~ ' is ' ~ spec[kind] ~ '; use a column',
        ],
    ]) -%}
    {%- set bucket = waltally.declare_bucket(name, spec) if kind == 'bucket_of' else {} -%}
    {%- set bounds = bucket.get('bounds', []) -%}
    {%- set unit = bucket.get('unit', units.get(kind)) -%}
    {%- set is_period = unit is not none -%}
    {%- set only = bucket.get('type', {'from': 'text', 'hour_of': 'timestamptz'}.get(kind, 'date' if is_period)) -%}
    {%- set type = waltally.name_type(spec.get('type', only or ('text' if kind == 'path' else none))) -%}
    {%- set nulls = spec.get('nulls', 'leave_out') -%}
    {%- set zones = ['timezone', 'column_timezone'] | select('in', spec) | list -%}
    {%- do waltally.check_declaration([
        [
            only and type != only,
            named ~ ' is ' ~ ('the slot and' if kind == 'from' else 'a ' ~ kind) ~ ' of type ' ~ type
            ~ "; use '" ~ only ~ "'",
        ],
        [
            type not in [
                'uuid', 'text', 'boolean', 'smallint', 'integer', 'bigint', 'date', 'timestamp', 'timestamptz',
            ] and not waltally.is_numeric_type(type),
            named ~ ' is of type ' ~ type ~ '; use uuid, text, boolean, smallint, '
            ~ 'integer, bigint, date, timestamp, timestamptz or numeric(p, s), and text fits the rest',
        ],
        [
            is_period and spec.get('timezone', 'UTC' if kind == 'bucket_of') is not string,
            named ~ " has no timezone; use a name such as 'Europe/London' or 'UTC', because "
            ~ ('an ' if kind == 'hour_of' else 'a ') ~ units[kind] ~ ' begins somewhere',
        ],
        [
            is_period and spec.get('column_timezone', 'UTC') is not string,
            'column_timezone of ' ~ named ~ ' is ' ~ spec['column_timezone']
            ~ "; use a name such as 'Europe/London' or 'UTC'",
        ],
        [
            zones and not is_period,
            named ~ ' has a ' ~ zones | first ~ ', which only ' ~ units | join(', ') ~ ' and every take',
        ],
        [
            nulls not in ['leave_out', 'count'],
            'nulls of ' ~ named ~ ' is ' ~ nulls ~ "; use 'count' or 'leave_out'",
        ],
        [
            kind == 'from' and nulls != 'leave_out',
            named ~ ' counts nulls, and a slot is never null; remove nulls',
        ],
    ]) -%}
    {{ return({
        'name': name,
        'type': 'text' if 'labels' in spec else type,
        'kind': 'slot' if kind == 'from' else 'period' if is_period else 'bucket' if bounds else kind,
        'column': none if kind == 'from' else spec['of'] if kind == 'path' else spec.get(kind, name),
        'unit': unit,
        'timezone': spec.get('timezone', 'UTC') if is_period else none,
        'column_timezone': spec.get('column_timezone', 'UTC') if is_period else none,
        'path': path | map('string') | list if kind == 'path' else [],
        'bounds': bounds,
        'labels': waltally.declare_labels(name, spec['labels'], type) if 'labels' in spec else {},
        'other_label': waltally.declare_label(name, spec['else']) if 'else' in spec else none,
        'value_type': type,
        'nulls': nulls,
    }) }}
{% endmacro %}

{# The buckets of a dimension, by their bounds or by an interval: {bounds, unit, type}. Bounds are texts, each
   with as many decimals as the one that has most; `unit` is as PostgreSQL and the seed take it: 900 seconds. #}
{% macro declare_bucket(name, spec) %}
    {%- do waltally.check_declaration([[
        ('bounds' in spec) == ('every' in spec),
        'dimension ' ~ name ~ " has a bucket_of; use either 'bounds': [numbers] or 'every': '15 minutes'",
    ]]) -%}
    {%- if 'every' in spec -%}
        {%- set found = modules.re.fullmatch('([1-9][0-9]{0,4}) (second|minute|hour)s?', spec['every'] | string) -%}
        {%- set seconds = found[1] | int * {'second': 1, 'minute': 60, 'hour': 3600}[found[2]] if found else 0 -%}
        {%- do waltally.check_declaration([[
            not seconds or 86400 % seconds,
            'every of dimension ' ~ name ~ ' is ' ~ spec['every']
            ~ "; use hours, minutes or seconds that divide a day, as in '15 minutes'",
        ]]) -%}
        {{ return({'bounds': [], 'unit': seconds ~ ' seconds', 'type': 'timestamptz'}) }}
    {%- endif -%}
    {%- set given = spec['bounds'] -%}
    {%- set named = 'bounds of dimension ' ~ name -%}
    {%- set takes = '; use a list of numbers, each larger than the one before, as in [0, 10, 100]' -%}
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

{# What values are called: {text of the value: label}. Of other types a value may have several texts. #}
{% macro declare_labels(name, given, type) %}
    {%- do waltally.check_declaration([
        [
            given is not mapping or not given or given.values() | reject('string') | list,
            'labels of dimension ' ~ name ~ ' is ' ~ given ~ "; use {value: name}, as in {'0': 'draft', '1': 'paid'}",
        ],
        [
            type not in ['smallint', 'integer', 'bigint', 'boolean', 'text'],
            'dimension ' ~ name ~ ' has labels and is of type ' ~ type
            ~ '; labels are for smallint, integer, bigint, boolean and text',
        ],
    ]) -%}
    {%- set labels = {} -%}
    {%- for value, label in given.items() -%}
        {%- set text = value | string | lower if value is boolean else value | string -%}
        {%- do waltally.check_declaration([
            [
                not modules.re.fullmatch({'text': '(?s).*', 'boolean': 'true|false'}.get(type, '0|-?[1-9][0-9]*'), text),
                'labels of dimension ' ~ name ~ ' has ' ~ value ~ ', which is no ' ~ type
                ~ (": 'else' stands beside 'labels', not in it" if text == 'else' else ''),
            ],
        ]) -%}
        {%- do labels.update({text: waltally.declare_label(name, label)}) -%}
    {%- endfor -%}
    {{ return(labels) }}
{% endmacro %}

{# A label: a text that has room in the model's key. #}
{% macro declare_label(name, label) %}
    {%- do waltally.check_declaration([
        [label is not string, 'a label of dimension ' ~ name ~ ' is ' ~ label ~ '; write a text'],
        [
            label is string and label.encode('utf-8') | length > 1000,
            'a label of dimension ' ~ name ~ ' has more than 1000 bytes; write a shorter one',
        ],
    ]) -%}
    {{ return(label) }}
{% endmacro %}
