create or replace view cdc.fact_state as
select plans.slot_name, plans.model_name, plans.state, plans.reason, plans.remedy, plans.applied_lsn,
    plans.fact_name
from cdc.slot_position as log
cross join lateral cdc.plan_models(log.slot_name) as plans
union all
select log.slot_name, plans.model_name, plans.state, plans.reason, plans.remedy, plans.applied_lsn,
    plans.fact_name
from cdc.slot_position as log
cross join lateral cdc.plan_roll_ups(log.slot_name) as plans;

comment on view cdc.fact_state is
    'Each model of each slot: it follows, waits or failed, why, and what helps.';
