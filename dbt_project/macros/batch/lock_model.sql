{# Let one build at a time apply this model, whatever slot it reads.

   The lock is a statement of its own. READ COMMITTED gives the next statement a new snapshot, which
   holds everything that the build before this one has committed. In one statement the snapshot
   would be older than the lock, and the same changes would be applied twice. #}
{% macro lock_model() %}
    {%- if target.get('autocommit') -%}
        {{ exceptions.raise_compiler_error(
            'A build is one transaction: remove autocommit from the profile.'
        ) }}
    {%- endif -%}
    {%- if flags.EMPTY -%}
        {{ exceptions.raise_compiler_error(
            'An --empty build would pass over changes without applying them: run without it.'
        ) }}
    {%- endif -%}
do $lock_model$
begin
    perform pg_advisory_xact_lock(hashtextextended({{ waltally.quote_literal('waltally ' ~ waltally.get_model_key()) }}, 0));
end
$lock_model$
{% endmacro %}
