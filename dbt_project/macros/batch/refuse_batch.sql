{# A step of bound_batch: refuse to add to a table that holds more or less than the change log. #}
{% macro refuse_batch() -%}
if state.applied_lsn > greatest(state.position_lsn, state.snapshot_lsn) then
            raise exception '% holds changes up to %, the change log only up to %',
                model, state.applied_lsn, state.position_lsn
                using hint = 'Run spark-submit spark/seed.py, then dbt build --full-refresh.';
        end if;
        if state.applied_lsn < state.start_lsn then
            raise exception 'the change log starts at %, % holds changes only up to %',
                state.start_lsn, model, state.applied_lsn
                using hint = 'Run spark-submit spark/seed.py, then dbt build --full-refresh.';
        end if;
{%- endmacro %}
