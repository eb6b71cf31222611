-- What a model keeps, with one more aggregate if it is not kept yet: under a name of ours.
create or replace function cdc.keep_aggregate(kept jsonb, expression text, is_anew boolean default false) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case
        when cdc.kept_place(kept, expression) is not null then kept
        else kept || jsonb_build_object(
            'name', case
                when expression = 'count(*)' then 'waltally_rows'
                else format('waltally_%s_%s', split_part(expression, '(', 1), jsonb_array_length(kept) + 1)
            end,
            'expression', expression,
            'is_anew', is_anew
        )
    end
$$;
