-- Keycloak (keycloak/keycloak)
-- tables
create table user_sessions (id text, offline text, realm_id text not null, refreshed_unix integer not null, primary key (id, offline));
create table client_sessions (session_id text, client_id text, offline text, primary key (session_id, client_id, offline));

-- query
select c.client_id, count(*) as sessions
from client_sessions as c join user_sessions as u on u.id = c.session_id and u.offline = c.offline
where u.offline = '0' and u.realm_id = 'main' /* :realm */ and u.refreshed_unix >= extract(epoch from now()) - 1800
group by c.client_id;

-- model people_sessions
{{ config(materialized='waltally') }}
select id, offline, realm_id, refreshed_unix / 60 as refreshed_minute from {{ source('app', 'user_sessions') }};

-- model clients
{{ config(materialized='waltally') }}
select session_id, client_id, offline from {{ source('app', 'client_sessions') }};

-- model sessions
{{ config(materialized='waltally') }}
select u.realm_id, u.offline, c.client_id, u.refreshed_minute, count(*) as sessions
from {{ ref('clients') }} as c join {{ ref('people_sessions') }} as u on u.id = c.session_id and u.offline = c.offline
group by 1, 2, 3, 4;

-- reads
select client_id, sum(sessions) as sessions from {{ ref('sessions') }}
where offline = '0' and realm_id = 'main' and refreshed_minute >= extract(epoch from now())::bigint / 60 - 30
group by client_id;

-- values
-- offline: '0' | '0' | '1'
-- realm_id: 'main' | 'main' | 'other'
-- refreshed_unix: extract(epoch from now())::integer | extract(epoch from now())::integer - 1500 | extract(epoch from now())::integer - 2100 | 1
