"""What counting the existing rows costs, beside other ways to count."""
