"""The live page: the page of `--html`, served to the browser of this user on this machine.

admission.py    who gets in: token, cookie, Host, Origin, the user of a connection
patches.py      what has changed between two documents
board.py        what all tabs show, and what each of them wants
looking.py      the thread that looks at the job while a tab is open
asked_values.py what ranks have answered to an expression, as colours of the grid
tab_questions.py  values and messages of logs, for one tab
tab.py          one tab's connection: it is sent changes only
application.py  the addresses
server.py       the port, and how it ends
"""
