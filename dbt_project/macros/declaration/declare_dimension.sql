{# One dimension: {name, type, kind, column, unit, timezone, column_timezone, path, bounds, labels, value_type,
   nulls}. `unit` is that of a period: day, hour, week, month, quarter, year or a number of seconds; `value_type`
   that of a value before it gets its label. #}
{% macro declare_dimension(name, given) %}
    {%- set spec = {'type': waltally.name_type(given)} if given is string else given -%}
    {%- set units = {
        'date_of': 'day', 'hour_of': 'hour', 'week_of': 'week', 'month_of': 'month', 'quarter_of': 'quarter',
        'year_of': 'year',
    } -%}
    {%- if spec is not mapping -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ ' is ' ~ given ~ "; it takes an SQL type, {'type': 'date', "
            ~ "'date_of': column, 'timezone': name} or {'from': 'slot'}"
        ) -%}
    {%- endif -%}
    {%- do waltally.refuse_unknown_keys('dimension ' ~ name, spec, [
        'type', 'date_of', 'hour_of', 'week_of', 'month_of', 'quarter_of', 'year_of', 'bucket_of', 'bounds', 'every',
        'path', 'of', 'labels', 'timezone', 'column_timezone', 'from', 'nulls'
    ]) -%}
    {%- set kinds = (units | list + ['from', 'bucket_of', 'path']) | select('in', spec) | list -%}
    {%- set kind = kinds[0] if kinds else 'column' -%}
    {%- do waltally.check_dimension_keys(name, spec, kind) -%}
    {%- set bounds = waltally.declare_bounds(name, spec['bounds']) if 'bounds' in spec else [] -%}
    {%- set unit = waltally.declare_interval(name, spec['every']) if 'every' in spec else units.get(kind) -%}
    {%- set is_period = unit is not none -%}
    {%- set only = 'text' if kind == 'from' else 'timestamptz' if kind in ['hour_of', 'bucket_of'] and is_period
        else 'date' if is_period else waltally.type_bounds(bounds) if bounds -%}
    {%- if kinds | length > 1 -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ ' has ' ~ kinds | join(' and ') ~ '; it takes one of them'
        ) -%}
    {%- elif kind == 'from' and spec['from'] != 'slot' -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ ' is from ' ~ spec['from'] ~ "; it takes 'slot'"
        ) -%}
    {%- endif -%}
    {%- set type = waltally.name_type(spec.get('type', only or ('text' if kind == 'path' else none))) -%}
    {%- if only and type != only -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ ' is ' ~ ('the slot and' if kind == 'from' else 'a ' ~ kind) ~ ' of type ' ~ type
            ~ "; it takes '" ~ only ~ "'"
        ) -%}
    {#- A value of these prints in one way only. #}
    {%- elif type not in [
        'uuid', 'text', 'boolean', 'smallint', 'integer', 'bigint', 'date', 'timestamp', 'timestamptz',
    ] and not waltally.is_numeric_type(type) -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ ' is of type ' ~ type ~ '; it takes uuid, text, boolean, smallint, '
            ~ 'integer, bigint, date, timestamp, timestamptz or numeric(p, s), and text fits the rest'
        ) -%}
    {%- elif kind in units | list + ['bucket_of'] and spec[kind] is not string -%}
        {%- do waltally.refuse_declaration(
            kind ~ ' of dimension ' ~ name ~ ' is ' ~ spec[kind] ~ '; it takes a column'
        ) -%}
    {%- elif is_period and spec.get('timezone', 'UTC' if kind == 'bucket_of') is not string -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ " has no timezone; it takes a name such as 'Europe/London' or 'UTC', "
            ~ 'because ' ~ ('an ' if kind == 'hour_of' else 'a ') ~ units[kind] ~ ' begins somewhere'
        ) -%}
    {%- elif is_period and spec.get('column_timezone', 'UTC') is not string -%}
        {%- do waltally.refuse_declaration(
            'column_timezone of dimension ' ~ name ~ ' is ' ~ spec['column_timezone']
            ~ "; it takes a name such as 'Europe/London' or 'UTC'"
        ) -%}
    {%- endif -%}
    {%- for zone in ['timezone', 'column_timezone'] if zone in spec and not is_period -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ ' has a ' ~ zone ~ ', which only ' ~ units | join(', ') ~ ' and every take'
        ) -%}
    {%- endfor -%}
    {%- set nulls = spec.get('nulls', 'leave_out') -%}
    {%- if nulls not in ['leave_out', 'count'] -%}
        {%- do waltally.refuse_declaration(
            'nulls of dimension ' ~ name ~ ' is ' ~ nulls ~ "; it takes 'count' or 'leave_out'"
        ) -%}
    {%- elif kind == 'from' and nulls != 'leave_out' -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ ' counts nulls, and a slot is never null; remove nulls'
        ) -%}
    {%- endif -%}
    {{ return({
        'name': name,
        'type': 'text' if 'labels' in spec else type,
        'kind': 'slot' if kind == 'from' else 'period' if is_period else 'bucket' if bounds else kind,
        'column': none if kind == 'from' else spec['of'] if kind == 'path' else spec.get(kind, name),
        'unit': unit,
        'timezone': spec.get('timezone', 'UTC') if is_period else none,
        'column_timezone': spec.get('column_timezone', 'UTC') if is_period else none,
        'path': spec['path'] | map('string') | list if kind == 'path' else [],
        'bounds': bounds,
        'labels': waltally.declare_labels(name, spec['labels'], type) if 'labels' in spec else {},
        'value_type': type,
        'nulls': nulls,
    }) }}
{% endmacro %}
