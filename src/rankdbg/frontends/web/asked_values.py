"""What ranks have answered to an expression, as a colouring of the grid."""

from __future__ import annotations

from rankdbg.frontends.html.document import ColourClass, Colouring
from rankdbg.frontends.html.rank_table import RankTable
from rankdbg.investigations.answers import Answers
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.rank_labels import silent_groups
from rankdbg.text.cutting import cut

LONGEST = 300  # characters of a value


def colouring_of(answers: Answers, found: JobVerdict) -> Colouring:
    """`found`: of the document that the page shows, whose places name the ranks."""
    table = RankTable.of_verdict(found)
    shown = answers.masked()
    classes: list[ColourClass] = [
        {
            "text": cut(value.text, LONGEST),
            "at": "",
            "says": value.type or "",
            "code": True,
            "odd": is_odd,
            "ranks": table.set_of(members),
        }
        for (value, members), is_odd in zip(shown.groups, shown.odd, strict=True)
    ]
    classes += [
        {
            "text": "no response",
            "at": "",
            "says": reason,
            "code": False,
            "odd": False,
            "ranks": table.set_of(ranks),
        }
        for reason, ranks in silent_groups(shown.no_response).items()
    ]
    return {
        "name": "ask",
        "columns": [cut(answers.expression, 60), "type"],
        "classes": sorted(classes, key=lambda each: each["odd"]),
    }
