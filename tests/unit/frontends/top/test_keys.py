"""What keys of `rankdbg top` do, as values."""

from __future__ import annotations

from live_pictures import demo_job, many_jobs, picture
from rankdbg.frontends.top.keys import Effect, Keys, PageRequest
from rankdbg.frontends.top.views import Picture, Place, View, job_places

SHOWN = picture(demo_job())
JOB = View(places=(Place("jobs", cursor="demo"), Place("groups", job="demo")))


def press(view: View, *keys: str, shown: Picture = SHOWN) -> tuple[View, Effect]:
    effect: Effect = ""
    for key in keys:
        view, effect = Keys(shown, (80, 24), 100.0).press(view, key)
    return view, effect


def test_a_single_job_is_opened_at_once() -> None:
    assert [place.kind for place in job_places(["demo"])] == ["jobs", "groups"]
    assert [place.kind for place in job_places(["a", "b"])] == ["jobs"]
    assert [place.kind for place in job_places([])] == ["jobs"]


def test_open_and_back() -> None:
    """A job, then a group, and back to where the cursor was."""
    view, _ = press(View(), "enter", "down", "enter")
    assert [place.kind for place in view.places] == ["jobs", "groups", "ranks"]
    assert view.place.title == "rank 5"
    assert {process.pid for process in view.place.ranks or ()} == {105}
    view, _ = press(view, "escape")
    assert view.place.cursor[2] == "read_shard"
    view, _ = press(view, "escape", "escape", "escape")
    assert [place.kind for place in view.places] == ["jobs"]


def test_the_cursor_stays_on_its_job() -> None:
    """Also when others end; where its own has gone, in its place."""
    shown = picture(*many_jobs(5))
    view, _ = press(View(), "j", "j", "j", shown=shown)
    assert view.place.cursor == "job-03"
    view, _ = press(view, "k", shown=picture(*many_jobs(5)[1:]))
    assert view.place.cursor == "job-02"
    view, _ = press(View(), "end", shown=shown)
    view, _ = press(view, "enter", shown=picture(*many_jobs(3)))
    assert view.place.job == "job-02"


def test_reports() -> None:
    """`why` is of the whole job, stacks and logs of what is selected."""
    _, why = press(JOB, "down", "w")
    _, stacks = press(JOB, "down", "s")
    _, logs = press(View(), "l")
    assert isinstance(why, PageRequest) and isinstance(stacks, PageRequest)
    assert isinstance(logs, PageRequest)
    assert (why.kind, why.ranks, why.job) == ("why", None, "demo")
    assert stacks.page.title == "stacks   job demo   rank 5"
    assert [rank.number for rank in stacks.ranks or ()] == [5]
    assert (logs.kind, logs.ranks) == ("logs", None)


def test_a_report_is_read_again() -> None:
    """In the place of the one before; another key reads another report."""
    view, first = press(JOB, "s")
    view, second = press(view, "r")
    assert isinstance(first, PageRequest) and isinstance(second, PageRequest)
    assert second.page is not first.page
    assert len(view.places) == 3
    view, third = press(view, "l")
    assert isinstance(third, PageRequest) and third.kind == "logs"
    assert len(view.places) == 3


def test_pages_scroll_within_their_text() -> None:
    view, _ = press(View(), "?", "up", "up")
    assert view.place.scroll == 0
    view, _ = press(view, "end", "down")
    assert view.place.scroll == 0  # all of it is seen


def test_filter() -> None:
    """What is wrong is said, and can be mended; Esc at the top takes it away."""
    view, _ = press(JOB, "/", *"dq=1", "enter")
    assert view.error == "no dimension dq"
    assert view.typed == "dq=1"
    view, _ = press(view, *["backspace"] * 4, *"dp=1", "enter")
    assert view.typed is None and view.chosen is not None
    assert view.chosen.text == "dp=1"
    view, _ = press(view, "/", "escape")
    assert view.chosen is not None
    view, _ = press(view, "escape", "escape")
    assert view.chosen is None


def test_keys_are_text_while_a_filter_is_typed() -> None:
    view, effect = press(JOB, "/", *"qp?")
    assert (view.typed, effect) == ("qp?", "")


def test_pause_and_rate() -> None:
    view, effect = press(View(), "p")
    assert view.paused and not effect
    view, effect = press(view, "p")
    assert not view.paused and effect == "look"
    assert press(View(), "+")[0].every == 1.0
    assert press(View(), *"++++++")[0].every == 0.5
    assert press(View(), *"--------")[0].every == 60.0


def test_nothing_to_select() -> None:
    """Keys do nothing where there is no row."""
    for key in ("enter", "w", "s", "l", "down", "end"):
        assert press(View(), key, shown=picture()) == (View(), "")
        assert press(View(), key, shown=Picture()) == (View(), "")
