-- Zulip (zulip/zulip)
-- tables
create table uploads (id bigint primary key, realm_id integer not null, size bigint not null, created_at timestamptz not null);

-- query
select realm_id, coalesce(sum(size), 0) as bytes from uploads group by realm_id;

-- model upload_space
{{ config(materialized='waltally') }}
select realm_id, coalesce(sum(size), 0) as bytes from {{ source('app', 'uploads') }} group by realm_id;

-- reads
select realm_id, bytes from {{ ref('upload_space') }};
