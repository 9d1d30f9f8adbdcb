"""A verdict as one file to look at and to send: a page with its data inside, which loads nothing. web/
serves the same page live.

document.py       what the page is given, as types: one JSON document
rank_table.py     the ranks, and sets of them as short texts
verdict_views.py  sentence, chain of waits, evidence
stack_views.py    merged stacks, groups of equal stacks, states
lane_views.py     collectives: who entered, who is missing
node_views.py     node health and GPUs
job_document.py   a verdict -> the document
page_files.py     the document -> HTML, with the built page (built/, from page/ by `make page`)
"""
