{# One dimension: {name, type, kind, column, timezone, column_timezone, nulls}. #}
{% macro declare_dimension(name, given) %}
    {%- set spec = {'type': given} if given is string else given -%}
    {%- if spec is not mapping -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ ' is ' ~ given ~ "; it takes an SQL type, {'type': 'date', "
            ~ "'date_of': column, 'timezone': name} or {'from': 'slot'}"
        ) -%}
    {%- endif -%}
    {%- do waltally.refuse_unknown_keys('dimension ' ~ name, spec, [
        'type', 'date_of', 'month_of', 'timezone', 'column_timezone', 'from', 'nulls'
    ]) -%}
    {%- set kinds = ['date_of', 'month_of', 'from'] | select('in', spec) | list -%}
    {%- set kind = kinds[0] if kinds else 'column' -%}
    {%- set is_day = kind in ['date_of', 'month_of'] -%}
    {%- if kinds | length > 1 -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ ' has ' ~ kinds | join(' and ') ~ '; it takes one of them'
        ) -%}
    {%- elif kind == 'from' and spec['from'] != 'slot' -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ ' is from ' ~ spec['from'] ~ "; it takes 'slot'"
        ) -%}
    {%- endif -%}
    {%- set type = spec.get('type', {'from': 'text', 'date_of': 'date', 'month_of': 'date'}.get(kind)) -%}
    {%- if is_day and type != 'date' -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ ' is a ' ~ kind ~ ' of type ' ~ type ~ "; it takes 'date'"
        ) -%}
    {%- elif kind == 'from' and type != 'text' -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ ' is the slot and of type ' ~ type ~ "; it takes 'text'"
        ) -%}
    {#- A value of these prints in one way only. #}
    {%- elif type not in [
        'uuid', 'text', 'boolean', 'smallint', 'integer', 'bigint', 'date', 'timestamp', 'timestamptz',
    ] and not waltally.is_numeric_type(type) -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ ' is of type ' ~ type ~ '; it takes uuid, text, boolean, smallint, '
            ~ 'integer, bigint, date, timestamp, timestamptz or numeric(p, s), and text fits the rest'
        ) -%}
    {%- elif is_day and spec[kind] is not string -%}
        {%- do waltally.refuse_declaration(
            kind ~ ' of dimension ' ~ name ~ ' is ' ~ spec[kind] ~ '; it takes a column'
        ) -%}
    {%- elif is_day and spec.get('timezone') is not string -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ " has no timezone; it takes a name such as 'Europe/London' or 'UTC', "
            ~ 'because a day begins somewhere'
        ) -%}
    {%- elif is_day and spec.get('column_timezone', 'UTC') is not string -%}
        {%- do waltally.refuse_declaration(
            'column_timezone of dimension ' ~ name ~ ' is ' ~ spec['column_timezone']
            ~ "; it takes a name such as 'Europe/London' or 'UTC'"
        ) -%}
    {%- endif -%}
    {%- for zone in ['timezone', 'column_timezone'] if zone in spec and not is_day -%}
        {%- do waltally.refuse_declaration(
            'dimension ' ~ name ~ ' has a ' ~ zone ~ ', which only date_of and month_of take'
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
        'type': type,
        'kind': 'slot' if kind == 'from' else kind,
        'column': none if kind == 'from' else spec.get(kind, name),
        'timezone': spec.get('timezone') if is_day else none,
        'column_timezone': spec.get('column_timezone', 'UTC') if is_day else none,
        'nulls': nulls,
    }) }}
{% endmacro %}
