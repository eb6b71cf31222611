-- What the slots follow: the models that dbt has installed, without copies in other schemas. `needed` are the columns
-- of each table, {"schema.table": ["column", ...]}; of a table with an empty list only the number of rows counts.
create or replace view cdc.registered_model as
select distinct on (installed.slot_name, installed.model_name)
    installed.slot_name,
    installed.model_name,
    installed.declaration,
    installed.relation_schema,
    installed.relation_name,
    installed.needed,
    installed.reading,
    installed.installed_at
from cdc.installed_model as installed
-- A slot that is torn down follows nothing, until it is set up again.
inner join cdc.slot_position as log on log.slot_name = installed.slot_name
order by installed.slot_name, installed.model_name, installed.added_at, installed.relation;

comment on view cdc.registered_model is 'The installed models that the slots follow. Loader, Spark and dbt read it.';
