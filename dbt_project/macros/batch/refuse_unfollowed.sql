{# A step of bound_batch: refuse a batch of which the log may lack changes, because one of the
   fact's tables or columns was not followed from its start on. #}
{% macro refuse_unfollowed() -%}
if
        waits is null
        and to_lsn > from_lsn
        and coalesce(state.followed_lsn > from_lsn, true)
    then
        raise exception 'the change log does not hold everything that % needs from % on', model, from_lsn
            using hint = 'Run loader setup and spark-submit spark/seed.py --fact {{ model.name }}, then dbt build.';
    end if;
{%- endmacro %}
