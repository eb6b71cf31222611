-- Zulip (zulip/zulip)
-- tables
create table uploads (id bigint primary key, realm_id integer not null, size bigint not null, created_at timestamptz not null);

-- query
select realm_id, coalesce(sum(size), 0) as bytes from uploads group by realm_id;
