-- Lemmy (LemmyNet/lemmy)
-- tables
create table people (id integer primary key, local boolean not null, is_bot boolean not null);
create table posts (id integer primary key, creator_id integer not null, published_at timestamptz not null);
create table comments (id integer primary key, creator_id integer not null, published_at timestamptz not null);
create table post_actions (person_id integer, post_id integer, voted_at timestamptz, primary key (person_id, post_id));

-- query
select count(*) from (
    select c.creator_id from comments as c join people as p on p.id = c.creator_id
    where c.published_at > now() - interval '1 month' and p.local and not p.is_bot
    union select o.creator_id from posts as o join people as p on p.id = o.creator_id
    where o.published_at > now() - interval '1 month' and p.local and not p.is_bot
    union select a.person_id from post_actions as a join people as p on p.id = a.person_id
    where a.voted_at > now() - interval '1 month' and p.local and not p.is_bot
) as u;

-- values
-- people.id: 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8
-- creator_id: 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8
-- person_id: 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8
-- local: true | true | false
-- is_bot: false | false | true
-- published_at: now() | now() - interval '20 days' | now() - interval '40 days' | now() - interval '40 days'
-- voted_at: now() - interval '3 days' | now() - interval '50 days' | now() - interval '50 days' | null
