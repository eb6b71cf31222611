-- Canvas LMS (instructure/canvas-lms)
-- tables
create table assignments (id bigint primary key, course_id bigint not null, state text not null);
create table enrolments (id bigint primary key, course_id bigint not null, user_id bigint not null, kind text not null, state text not null);
create table submissions (id bigint primary key, assignment_id bigint not null references assignments, user_id bigint not null, score double precision,
    excused boolean, state text not null);

-- query
select s.assignment_id, max(s.score), min(s.score), avg(s.score), count(*)
from submissions as s join assignments as a on a.id = s.assignment_id
where a.course_id = 1 /* :course */ and a.state = 'published' and s.excused is not true and s.score is not null and s.state = 'graded'
    and s.user_id in (select e.user_id from enrolments as e where e.course_id = 1 and e.kind = 'student'
        and e.state not in ('rejected', 'completed', 'deleted', 'inactive'))
group by s.assignment_id;

-- values
-- course_id: 1 | 1 | 2
-- assignments.state: 'published' | 'published' | 'deleted'
-- submissions.state: 'graded' | 'graded' | 'submitted'
-- enrolments.state: 'active' | 'active' | 'completed'
-- kind: 'student' | 'student' | 'teacher'
-- excused: null | false | true
