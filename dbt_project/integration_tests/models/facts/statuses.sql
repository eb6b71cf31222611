select notification_status from {{ ref('ft_statuses') }}
