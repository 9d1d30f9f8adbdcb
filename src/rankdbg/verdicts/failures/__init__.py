"""Log lines of all ranks -> what failed first, what followed from it, and in which phase a rank is."""
