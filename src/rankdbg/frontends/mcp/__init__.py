"""An MCP server on stdio: the investigations as tools for AI agents.

server.py       the protocol: requests in, results out (the only module that imports `mcp`)
calls.py        one call of a tool, from its arguments to its document and text
tools.py        the table of tools; asking.py and control.py answer them
parameters.py   what a tool takes, and one sentence about what it does not take
schemas.py      what a tool returns: the documents of --json
texts.py        the same documents in few lines; text_parts.py: what these are made of
pages.py        what fits into an answer; cursors to the rest
job_text.py     text of ranks: without escape sequences, masked, cut, quoted if it reads like an order
sharing.py      one connection for each target, closed when it is idle
resources.py    guides, causes, snapshots and reports; prompts.py: three first questions
installing.py   the entry in the configuration of clients
"""
