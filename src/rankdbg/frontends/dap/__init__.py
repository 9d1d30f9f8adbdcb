"""Editors: one DAP server, one attach, a session for each rank.

server        a connection -> the parent's session or a rank's
listening     where editors connect: a port or a Unix socket
tokens        the token that an editor needs to connect to a port
protocol      DAP's messages on a connection
capabilities  the capabilities for editors
parent        the parent session of an editor
console       the commands of its debug console
child         a rank's session: between the editor and the debugger in the rank
hub           which ranks have sessions, and which of them move together
announcing    ranks that have stopped, or have not returned from a step
mappings      local paths of the ranks' files
entering      into a rank, through its node's channel
settings      the options of rankdbg dap
"""
