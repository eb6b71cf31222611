{# The changes of a batch that matter to any of the facts, in the columns of the type `change`: the table's
   number, and its values in the order of list_readables, as read_fact_value gives them. Changes that look
   alike are one row, which is most of what makes a batch cheap; `is_each` keeps them apart.

   batch, part  conditions on the log: the whole batch, for TRUNCATE, and the part that is read.
   slot         the slot's name, as SQL. #}
{% macro read_batch(readables, slot, batch='true', part='true', is_each='false') %}
{#- Current rows list a change of no table at once, and need its place for that. -#}
{%- set is_listed = ' or table_no is null' if readables | selectattr('is_each', 'defined') | list else '' -%}
with change_log as (
    select
        commit_lsn,
        ordinal,
        action,
        -- A long payload is stored compressed or out of line: read it once, not at each use.
        payload || '' as payload,
        case
            when action is null then {{ waltally.get_staging_schema() }}.jsonb_or_null(payload)
        end as message
    from {{ waltally.name_table(source('cdc', 'change_log')) }}
    where slot_name = {{ slot }} and {{ part }}
    offset 0
),

recognised as (
    select
        *,
        -- The action of a change that is printed exactly as wal2json prints it, so that its images can be cut out of
        -- the text. The loader notes it. A row without it was written by hand or by an older loader: its
        -- beginning tells.
        case
            when action is not null then action::text
            when message is null then null
            when left(payload, 500) ~ '^{"action":"[IU]",("[a-z]+":("[^"\\]*"|\d+),)+"columns":\['
                then substr(payload, 12, 1)
            when left(payload, 500) ~ '^{"action":"D",("[a-z]+":("[^"\\]*"|\d+),)+"identity":\['
                then 'D'
        end as plugin_action
    from change_log
    offset 0
),

named as (
    select
        *,
        coalesce(plugin_action, message ->> 'action') as said_action,
        {{ waltally.read_table(readables) }} as table_no
    from recognised
    offset 0
),

-- The last TRUNCATE of each table. The condition is that of the index change_log_truncates, word for word, or the
-- whole batch would be read.
truncates as (
    select distinct on (numbered.table_no)
        numbered.table_no,
        log.commit_lsn,
        log.ordinal
    from {{ waltally.name_table(source('cdc', 'change_log')) }} as log
    cross join lateral (
        select {{ waltally.get_staging_schema() }}.jsonb_or_null(log.payload) as message
    ) as parsed
    inner join (
        values
        {%- for readable in readables %}
        ({{ loop.index }}, {{ waltally.quote_literal(readable.schema ~ '.' ~ readable.table) }}){{ ',' if not loop.last }}
        {%- endfor %}
    ) as numbered (table_no, name)
        on numbered.name = (parsed.message ->> 'schema') || '.' || (parsed.message ->> 'table')
    where
        log.slot_name = {{ slot }}
        and {{ batch }}
        and (log.action is null or log.action = 'T')
        and parsed.message ->> 'action' = 'T'
    order by numbered.table_no asc, log.commit_lsn desc, log.ordinal desc
),

cut as (
    select
        named.commit_lsn,
        named.ordinal,
        named.said_action as action,
        named.table_no,
        case
            when named.plugin_action is null and named.message is null then 'the payload is not valid JSON'
            -- Of a row that the target cannot hold as text the loader keeps the bytes under this name.
            when named.message ? 'undecodable' then 'the text of the row does not fit the target''s encoding'
            when named.said_action is null or named.said_action not in ('I', 'U', 'D', 'T')
                then 'the action is not known'
            when named.table_no is null then 'the change names no table'
        end as problem,
        -- wal2json prints the columns before the identity, so the new image is what comes before. Where there is
        -- only one image, the whole text is searched. Not by strpos: on a long text it counts the characters up
        -- to what it finds.
        case plugin_action
            when 'I' then null
            when 'U' then nullif(split_part(payload, ',"identity":[', 2), '')
            when 'D' then payload
            else (message -> 'identity')::text
        end as old_image,
        case plugin_action
            when 'I' then payload
            when 'U' then split_part(payload, ',"identity":[', 1)
            when 'D' then null
            else (message -> 'columns')::text
        end as new_image,
        (
            (named.commit_lsn, named.ordinal) < (truncates.commit_lsn, truncates.ordinal)
        ) is true as is_cancelled
    from named
    left join truncates on named.table_no = truncates.table_no
    where
        -- Transaction bounds and messages hold no row; 0 is a table that no fact reads.
        coalesce(named.said_action not in ('B', 'C', 'M'), true)
        and named.table_no is distinct from 0
    offset 0
),

-- An image is an array of {"name": ..., "value": ...} as text. Parsing all of it as JSON costs five times as much
-- as what is between the name and the next quote. Where that holds no backslash it is the value: then the next quote
-- ends the string, and the name with its colon and brace cannot be part of a value, where the quotes would be escaped.
plain as (
    select
        *,
        {%- call(columns, readable, image) waltally.list_by_table(readables, 'plain') %}
                {%- for column in columns %}
                {%- set before = '{"name":' ~ waltally.print_json_string(column) ~ ',"value":"' %}
                split_part(split_part({{ image }}_image, {{ waltally.quote_literal(before) }}, 2), '"', 1){{ ',' if not loop.last }}
                {%- endfor %}
        {%- endcall %}
    from cut
    -- Without this the planner repeats each search wherever its result is used.
    offset 0
),

-- A plain string is itself, anything else a backslash and its JSON, and null what the image lacks. So two values are
-- equal where their texts are equal.
found as (
    select
        *,
        {%- call(columns, readable, image) waltally.list_by_table(readables, 'found') %}
                {%- for column in columns %}
                {%- set plain = image ~ '_plain[' ~ loop.index ~ ']' %}
                case
                    when {{ plain }} <> '' and strpos({{ plain }}, '\') = 0 then {{ plain }}
                    else {{ waltally.get_staging_schema() }}.image_value({{ image }}_image, {{ waltally.quote_literal(column) }})
                end{{ ',' if not loop.last }}
                {%- endfor %}
        {%- endcall %}
    from plain
    offset 0
),

valued as (
    select
        table_no,
        action,
        commit_lsn,
        ordinal,
        is_cancelled,
        coalesce(
            problem,
            case
                when action in ('U', 'D') and old_image is null then 'the replica identity carries no old row'
            end
        ) as problem,
        {%- call(columns, readable, image) waltally.list_by_table(readables, 'values') %}
                {%- for value in readable['values'] %}
                {%- set place = columns.index(value.column) + 1 %}
                {{ waltally.read_fact_value(
                    value,
                    'old_found[' ~ place ~ ']' if image == 'old'
                    else 'coalesce(new_found[' ~ place ~ '], old_found[' ~ place ~ '])'
                ) }}{{ ',' if not loop.last }}
                {%- endfor %}
        {%- endcall %}
    from found
    offset 0
),

kept as (
    select
        *,
        {{ is_each }}
        {{- is_listed }}
        {%- for readable in readables if readable.is_each or readable.is_ignored %}
        or (table_no = {{ readables.index(readable) + 1 }}{{ " and action = 'D'" if not readable.is_each }})
        {%- endfor %} as is_alone
    from valued
    -- An update that moves none of the values. A value that is absent is no value.
    where (action = 'U' and old_values = new_values and array_position(old_values, null) is null) is not true
)

select
    table_no,
    action,
    case when is_alone then commit_lsn end as commit_lsn,
    case when is_alone and ({{ is_each }}{{ is_listed }}
        {%- for readable in readables if readable.is_each %} or table_no = {{ readables.index(readable) + 1 }}{% endfor %}) then ordinal end as ordinal,
    is_cancelled,
    problem,
    old_values,
    new_values,
    count(*) as change_count,
    max(commit_lsn) as last_lsn,
    null::integer[] as missing
from kept
group by 1, 2, 3, 4, is_cancelled, problem, old_values, new_values
{% endmacro %}
