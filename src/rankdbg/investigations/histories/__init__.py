"""What ranks did, from their history files: where they parted, as a value and in words."""
