"""Editors: one DAP server, one attach, a session for each rank.

server        a connection -> the parent's session or a rank's
peers         whose connection it is
protocol      DAP's messages on a connection
capabilities  what editors are told that can be done
parent        what the one attach talks to
console       what can be typed there
child         a rank's session: between the editor and the debugger in the rank
hub           which ranks have sessions, and which of them move together
announcing    who has stopped, and who has not come back from a step
mappings      where the ranks' files are here
entering      into a rank, through its node's channel
settings      what the user has asked for
"""
