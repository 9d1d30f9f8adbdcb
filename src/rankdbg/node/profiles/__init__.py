"""Profiles of the ranks of this node from outside, with py-spy, and the documents made of them."""
