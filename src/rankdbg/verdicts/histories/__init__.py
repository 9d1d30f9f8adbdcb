"""Where ranks parted: what each of them did -> the last common event, and the first difference."""
