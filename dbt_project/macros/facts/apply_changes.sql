{# A step of a fact's routine: add changes to the table, write down the deletes that the fact ignores, and
   report what could not be counted. `is_plain`: there is neither a TRUNCATE nor a delete, as in most batches; the
   server spends more on what these need than on a few changes. `deltas` is the function of write_deltas. #}
{% macro apply_changes(declared, derived, deltas, is_plain) %}
{%- set ignoring = not is_plain and declared.tables | selectattr('deletes', 'equalto', 'ignore') | list -%}
{%- set archived = waltally.get_staging_schema() ~ '.archived_delete' -%}
with deltas as materialized (
    select * from {{ deltas }}($2, $3, $4, $5)
),
{%- if not is_plain %}

-- A TRUNCATE takes away what came before it: compute_deltas has taken it out of the deltas, and here it goes
-- out of the table. A rebuild has left it out of the baseline.
truncates as (
    select distinct part
    from deltas
    where action = 'T' and rejected_reason is null and $1 = 'add'
),
{%- endif %}

contributions as (
    select
        {{ waltally.number_names('d', declared.dimensions | length) }},
        {%- for measure in declared.measures %}
        sign * {{ waltally.measure_delta(declared, measure) }} as m{{ loop.index0 }},
        {%- endfor %}
        false as is_stored
    from deltas
    where deltas.sign is not null and not deltas.is_ignored
    {%- if not is_plain %}

    union all
    {{ waltally.take_out(declared) }}
    {%- endif %}
),
{{ waltally.add_contributions(declared, derived) }}
{%- if ignoring %},

forgotten as (
    delete from {{ archived }} as old
    where
        old.slot_name = $2
        and old.model_name = {{ waltally.quote_literal(waltally.get_model_key()) }}
        -- An array is made once; a semi-join would go through all deltas for each row.
        and old.part = any(array(
            select deltas.part from deltas where deltas.action = 'T' and deltas.rejected_reason is null
        ))
),

written_down as (
    insert into {{ archived }} (slot_name, model_name, part, commit_lsn, dimensions, measures)
    select
        $2,
        {{ waltally.quote_literal(waltally.get_model_key()) }},
        part,
        commit_lsn,
        array[
            {%- for dimension in declared.dimensions %}
            d{{ loop.index0 }}::text{{ ',' if not loop.last }}
            {%- endfor %}
        ],
        array[
            {%- for measure in declared.measures %}
            sum({{ waltally.measure_delta(declared, measure) }})::numeric{{ ',' if not loop.last }}
            {%- endfor %}
        ]
    from deltas
    where is_ignored and sign is not null
    group by part, commit_lsn, {{ waltally.number_names('d', declared.dimensions | length) }}
)
{%- endif %}

select
    max(parts.rejected_lsn),
    jsonb_object_agg(
        parts.part, jsonb_build_object('row_count', parts.left_out, 'is_truncated', parts.is_truncated)
    ) filter (where parts.part is not null),
    (select told.moved from told),
    (select told.is_reset from told)
into result.rejected_lsn, result.left_out, result.moved, result.is_reset
from (
    select
        part,
        max(last_lsn) filter (where rejected_reason is not null) as rejected_lsn,
        sum(left_out) as left_out,
        coalesce(bool_or(action = 'T' and rejected_reason is null), false) as is_truncated
    from deltas
    group by part
) as parts;
{% endmacro %}
