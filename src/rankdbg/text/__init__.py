"""Text for people: amounts, and what others wrote made visible."""
