{# Give the model's table the grants of its config. Nothing is written where it has them. #}
{% macro keep_grants(relation, grants) %}
    {%- if grants -%}
        {%- set found = run_query(get_show_grant_sql(relation)) -%}
        {%- set present = adapter.standardize_grants_dict(found) -%}
        {%- if diff_of_two_dicts(grants, present) or diff_of_two_dicts(present, grants) -%}
            {%- do apply_grants(relation, grants, should_revoke=true) -%}
        {%- endif -%}
    {%- endif -%}
{% endmacro %}
