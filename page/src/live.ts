// The live page: it is sent a document, and then what changes in it.

import { Asking } from "./asking";
import { changed, partsThatDiffer } from "./changes";
import { Connection, type LiveMessage, type LiveState } from "./connection";
import type { PageDocument } from "./document";
import { h } from "./dom";
import { Logs } from "./logs";
import { clockTime, Page } from "./page";

const PACES = [2, 5, 10, 30, 60, 300];
// An open list of choices is not taken away.
const CHOOSING = 15_000;

class LivePage {
  private readonly mark = h("span", { class: "mark", "aria-hidden": "true" });
  private readonly freshness = h("span", { class: "freshness" });
  private readonly pause = h("button", { class: "button", type: "button", "aria-pressed": "false" }, "Pause");
  private readonly every: HTMLSelectElement;
  private readonly controls: HTMLElement;
  private readonly notice = h("p", { class: "notice", role: "status", hidden: true });
  private readonly waiting = h("main", { class: "waiting" }, h("h1", {}, "Looking at the job …"), h("p", { class: "subtitle" }));
  private readonly connection = new Connection((message) => this.take(message), () => this.tell());
  private readonly asking = new Asking(this.connection, () => this.show(true));
  private readonly logs = new Logs(this.connection);
  private page: Page | null = null;
  private latest: PageDocument | null = null;
  private unseen = new Set<string>();
  private live: LiveState = { status: "first", problem: "", age: null };
  private received = 0; // when `live` was
  private shownAge = 0; // of the document that is shown, when it was received
  private shownSince = 0;
  private isPaused = false;
  private isPressed = false;
  private pressed = 0;

  constructor(private pace: number) {
    const paces = [...new Set([...PACES, pace])].sort((a, b) => a - b);
    this.every = h("select", { class: "field" }, ...paces.map((each) => h("option", { value: each, selected: each === pace }, inWords(each))));
    this.controls = h("div", { class: "live" }, h("span", { class: "status" }, this.mark, this.freshness), h("label", { class: "choice pace" }, h("span", { class: "name" }, "every"), this.every), this.pause);
    document.body.append(h("header", { class: "top" }, h("div", { class: "brand" }, "rankdbg"), this.controls), this.waiting);
    this.listen();
    this.setPace();
    this.connection.open();
    setInterval(() => this.tell(), 1000);
  }

  private listen(): void {
    this.pause.addEventListener("click", () => this.setPaused(!this.isPaused));
    this.every.addEventListener("change", () => {
      this.pace = Number(this.every.value);
      this.setPace();
    });
    document.addEventListener("visibilitychange", () => this.setPace());
    addEventListener("pointerdown", () => { this.isPressed = true; this.pressed = Date.now(); }, true);
    for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => { this.isPressed = false; setTimeout(() => this.show()); }, true);
    document.addEventListener("selectionchange", () => this.show());
    addEventListener("keydown", (event) => {
      if (event.key !== "p" || event.ctrlKey || event.metaKey || event.altKey || /INPUT|SELECT/.test((event.target as Element).tagName)) return;
      this.setPaused(!this.isPaused);
      event.preventDefault();
    });
  }

  private setPaused(isPaused: boolean): void {
    this.isPaused = isPaused;
    this.pause.textContent = isPaused ? "Continue" : "Pause";
    this.pause.setAttribute("aria-pressed", String(isPaused));
    this.setPace();
    this.show();
  }

  /** A job is not looked at for a page that is paused, or that is not seen. */
  private setPace(): void {
    this.connection.setPace(this.isPaused || document.hidden ? 0 : this.pace);
    this.tell();
  }

  // ---- what arrives

  private take({ live, document: whole, changes, answer, logs }: LiveMessage): void {
    this.live = live;
    this.received = Date.now();
    const before = this.latest;
    if (whole) this.latest = whole;
    else if (changes && before) this.latest = changed(before, changes);
    if (before && this.latest && before !== this.latest) for (const part of partsThatDiffer(before, this.latest)) this.unseen.add(part);
    this.remember();
    if (answer && this.latest && this.asking.take(answer, this.latest)) this.show(true);
    else this.show();
    if (logs) this.logs.take(logs);
    else if (!answer && !this.isPaused && live.status === "live") this.logs.ask();
  }

  /** Also while the page is held: what has passed is drawn later. */
  private remember(): void {
    if (this.page && this.latest?.nodes) this.page.state.history.add(this.latest.nodes);
  }

  private get isHeld(): boolean {
    const selection = getSelection();
    const isMarking = selection?.type === "Range" && selection.anchorNode?.parentElement?.closest("main") !== null;
    const isChoosing = document.activeElement?.tagName === "SELECT" && Date.now() - this.pressed < CHOOSING;
    return this.isPaused || this.isPressed || isMarking || isChoosing;
  }

  /** `asked`: what is painted has changed, by the user. */
  private show(asked = false): void {
    if (this.latest && !this.page) this.begin(this.latest);
    else if (this.page && this.latest && (asked || (this.unseen.size && !this.isHeld))) {
      const parts = this.unseen;
      this.unseen = new Set();
      if (asked) parts.add("colourings");
      this.page.update(this.asking.with(this.latest), parts);
      if (asked) {
        this.page.state.choose("ask", this.asking.expression);
        this.page.paintBy(this.asking.name);
      }
      this.page.state.writeAddress();
    }
    if (!this.unseen.size) {
      this.shownAge = this.live.age ?? 0;
      this.shownSince = this.received;
    }
    this.tell();
  }

  private begin(first: PageDocument): void {
    document.querySelector("header")!.remove();
    this.waiting.remove();
    this.page = new Page(
      first,
      {
        of: "job",
        hasTime: this.live.status === "saved",
        foot: [h("code", {}, "rankdbg web"), ` ${first.version} looks, and changes nothing in the job.`],
        keys: [["/", "select"], ["f", "search frames"], ["p", "pause"], ["Esc", "clear"]],
      },
      [this.controls],
      [this.asking.form],
    );
    document.querySelector("main")!.prepend(this.notice);
    document.querySelector(".foot")!.before(this.logs.section);
    this.logs.begin(this.page.state);
    this.remember();
    if (this.page.state.chosen.ask) this.asking.ask(this.page.state.chosen.ask);
  }

  // ---- what it says of itself

  private get age(): number {
    return this.shownAge + (Date.now() - this.shownSince) / 1000;
  }

  private tell(): void {
    const { status, problem } = this.live;
    const isSaved = status === "saved";
    const mode = isSaved ? "saved" : !this.connection.isOpen || status === "lost" ? "lost" : this.isPaused ? "paused" : status;
    this.controls.dataset.mode = mode;
    this.every.parentElement!.hidden = this.pause.hidden = isSaved;
    const old = `${inWords(this.age)} old`;
    setText(this.freshness, { first: "looking …", live: `data ${old}`, paused: `paused: data ${old}`, saved: "saved", lost: this.page ? `data ${old}` : "no data" }[mode]);
    const why = status === "lost" && this.connection.isOpen ? problem : this.connection.isOpen || isSaved ? "" : "rankdbg web does not answer: it has ended, or cannot be reached.";
    const since = this.page ? ` This is the state at ${clockTime(this.page.state.document.time)}.` : "";
    setText(this.notice, why && `${why}${since}`);
    this.notice.hidden = !why;
    setText(this.waiting.lastElementChild!, why);
    setText(this.waiting.firstElementChild!, why ? "No job to look at" : "Looking at the job …");
  }
}

/** Not touched where it is the same: it may be marked, or read aloud. */
function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

function inWords(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  return whole < 3600 ? `${Math.floor(whole / 60)} min` : `${Math.floor(whole / 3600)} h`;
}

const { pace } = JSON.parse(document.getElementById("document")!.textContent!) as { pace: number };
new LivePage(pace);
