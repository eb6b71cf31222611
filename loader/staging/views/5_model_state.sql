-- model_name is the model as commands take it, a copy by its relation; relation is where its rows are.
create or replace view cdc.model_state as
select
    models.slot_name,
    cdc.command_name(log.slot_name, models.relation, models.model_name) as model_name,
    models.relation,
    models.state,
    models.reason,
    models.remedy,
    models.applied_lsn,
    models.engine,
    mark.audited_at
from cdc.slot_position as log
cross join lateral cdc.explain_models(log.slot_name) as models
left join cdc.model_watermark as mark
    on mark.slot_name = models.slot_name and mark.relation = models.relation
union all
select
    log.slot_name,
    cdc.command_name(log.slot_name, dependent.relation, dependent.model_name, dependent.inputs) as model_name,
    dependent.relation,
    dependent.state,
    dependent.reason,
    dependent.remedy,
    dependent.applied_lsn,
    dependent.engine,
    own.audited_at
from cdc.slot_position as log
cross join lateral cdc.plan_dependents(log.slot_name) as dependent
left join cdc.dependent_model as own on own.relation = dependent.relation;

comment on view cdc.model_state is
    'Each model of each slot: it follows, waits or failed, why, and what helps.';
