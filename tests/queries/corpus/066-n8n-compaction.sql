-- n8n (n8n-io/n8n)
-- tables
create table raw_insights (id integer primary key, meta_id integer not null, kind integer not null, value bigint not null, at timestamptz not null);

-- query
select meta_id, kind, date_trunc('hour', at at time zone 'UTC') at time zone 'UTC' as hour, sum(value) as value
from raw_insights group by meta_id, kind, hour;
