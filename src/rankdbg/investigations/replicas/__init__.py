"""Whether replicas are equal.

results           what was found, as text, JSON and tables
common_steps      one question to all ranks at the start of the same step
comparing         hashes of all ranks -> which tensors differ, how far, since when
first_difference  which was the first, what kind of mistake it is, and which module makes it
words             sentences about these
computation_words sentences about modules and operators
"""
