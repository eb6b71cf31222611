-- Keycloak (keycloak/keycloak)
-- tables
create table user_sessions (id text, offline text, realm_id text not null, refreshed_unix integer not null, primary key (id, offline));
create table client_sessions (session_id text, client_id text, offline text, primary key (session_id, client_id, offline));

-- query
select c.client_id, count(*) as sessions
from client_sessions as c join user_sessions as u on u.id = c.session_id and u.offline = c.offline
where u.offline = '0' and u.realm_id = 'main' /* :realm */ and u.refreshed_unix >= extract(epoch from now()) - 1800
group by c.client_id;

-- values
-- offline: '0' | '0' | '1'
-- realm_id: 'main' | 'main' | 'other'
-- refreshed_unix: extract(epoch from now())::integer | extract(epoch from now())::integer - 1500 | extract(epoch from now())::integer - 2100 | 1
