-- PeerTube (Chocobozzz/PeerTube)
-- tables
create table viewers (id bigint primary key, video_id bigint not null, started_at timestamptz not null, ended_at timestamptz not null);

-- query
select at, viewers from (
    select at, sum(sum(step)) over (order by at) as viewers
    from (
        select started_at as at, 1 as step from viewers where video_id = 1 /* :video */
        union all select ended_at, -1 from viewers where video_id = 1 /* :video */
    ) as s group by at
) as t order by viewers desc, at fetch first 1 row only;
