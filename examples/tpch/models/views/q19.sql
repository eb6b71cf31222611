select revenue from {{ ref('discounted_revenue') }}
