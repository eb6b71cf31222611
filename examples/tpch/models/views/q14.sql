select 100.00 * coalesce(promo_revenue, 0) / revenue as promo_revenue
from {{ ref('promo_revenue') }}
