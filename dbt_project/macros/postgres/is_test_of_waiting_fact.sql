{# Whether this is a test of a fact that has no table yet, because it waits for its baseline. #}
{% macro is_test_of_waiting_fact() %}
    {%- set tested = graph.nodes.get(model.get('attached_node')) -%}
    {{ return(
        tested is not none
        and tested.config.meta.waltally is defined
        and adapter.get_relation(target.database, tested.schema, tested.alias) is none
    ) }}
{% endmacro %}
