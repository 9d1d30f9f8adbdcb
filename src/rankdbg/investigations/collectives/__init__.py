"""Who is missing from which collective: what ranks recorded, as a value and in words."""
