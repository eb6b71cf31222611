-- What brings a model of this engine to what is staged, as a remedy.
create or replace function cdc.name_builder(engine text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    return case engine
        when 'spark' then '`spark-submit spark/apply.py`'
        else '`loader run --build` or `dbt build`'
    end;
end
$$;
