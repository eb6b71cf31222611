"""Has the database apply what is staged, and paces it."""
