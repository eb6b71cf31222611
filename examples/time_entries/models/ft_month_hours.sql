{{ waltally.roll_up(
    fact=ref('ft_project_hours'),
    lookups={'project': {'rows': ref('projects'), 'by': {'office': 'office', 'id': 'project_id'}}},
    dimensions={'office': 'office', 'month': 'month', 'is_open': 'project.is_open'},
    measures={
        'entry_count': {'sum': 'entry_count'},
        'hours': {'sum': 'hours'},
        'project_count': {'distinct': 'project_id'},
        'name_count': {'distinct': 'project.name'},
        'least_budget': {'min': 'project.budget'},
        'largest_budget': {'max': 'project.budget'},
    },
    derived={'average_hours': 'round(hours / nullif(entry_count, 0), 2)'},
) }}
