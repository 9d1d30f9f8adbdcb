// Messages of the logs, of the ranks that are selected.

import type { Connection, LogAnswer } from "./connection";
import { h } from "./dom";
import type { PageState } from "./page_state";

const SOON = 300; // milliseconds after the last change of the selection
const AT_END = 24; // pixels

export class Logs {
  private readonly grep = h("input", { class: "field code", type: "search", placeholder: "regular expression", "aria-label": "Only messages that match" });
  private readonly says = h("p", { class: "says" }, "messages of all ranks by time; equal ones once");
  private readonly rows = h("tbody");
  private readonly box = h("div", { class: "messages", tabindex: 0, role: "log", "aria-live": "off", "aria-labelledby": "logs-title" }, h("table", {}, this.rows));
  private readonly notes = h("p", { class: "dim" });
  private readonly newer = h("button", { class: "button newer", type: "button", hidden: true });
  readonly section = h(
    "section",
    { id: "logs", "aria-labelledby": "logs-title" },
    h("div", { class: "heading" }, h("h2", { id: "logs-title" }, "Logs"), this.says, h("div", { class: "tools" }, this.grep)),
    this.box,
    this.newer,
    this.notes,
  );
  private state: PageState | null = null;
  private shown = "";
  private latest: LogAnswer | null = null;
  private asked = "";
  private isSeen = false;
  private waiting = 0;

  constructor(private readonly connection: Connection) {
    this.grep.addEventListener("input", () => {
      this.state?.choose("grep", this.grep.value);
      this.askSoon();
    });
    this.newer.addEventListener("click", () => this.show(true));
    this.box.addEventListener("scroll", () => { if (this.isAtEnd && !this.newer.hidden) this.show(true); });
    new IntersectionObserver(([entry]) => {
      this.isSeen = entry.isIntersecting;
      if (this.isSeen) this.ask();
    }).observe(this.section);
  }

  begin(state: PageState): void {
    this.state = state;
    this.grep.value = state.chosen.grep;
    state.watch(() => this.askSoon());
  }

  private askSoon(): void {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.ask(), SOON);
  }

  /** Nobody reads what is not in sight. */
  ask(): void {
    if (!this.state || !this.isSeen) return;
    this.asked = JSON.stringify([this.state.selectedText, this.grep.value]);
    this.connection.readLogs(this.state.selectedText, this.grep.value);
  }

  take(answer: LogAnswer): void {
    if (this.key(answer) !== this.asked) return; // there will be an answer to a newer question
    this.latest = answer;
    this.show(this.isAtEnd || this.key(answer) !== this.shown);
  }

  private key = (answer: LogAnswer): string => JSON.stringify([answer.ranks, answer.grep]);

  private get isAtEnd(): boolean {
    return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < AT_END;
  }

  /** New messages wait while older ones are read. */
  private show(now: boolean): void {
    const { latest } = this;
    if (!latest) return;
    const messages = latest.messages ?? [];
    const texts = messages.map((each) => [each.time.slice(11, 23), each.ranks, each.text]);
    const old = [...this.rows.children].map((row) => [...row.children].map((cell) => cell.textContent!));
    this.newer.hidden = true;
    if (JSON.stringify(texts) !== JSON.stringify(old)) {
      if (!now) {
        this.newer.textContent = "Show newer messages";
        this.newer.hidden = false;
        return;
      }
      this.rows.replaceChildren(...texts.map((cells) => h("tr", {}, ...cells.map((cell) => h("td", {}, cell)))));
      this.box.scrollTop = this.box.scrollHeight;
    }
    this.shown = this.key(latest);
    this.box.hidden = !messages.length;
    this.says.textContent = `${latest.ranks ? "messages of the selected ranks" : "messages of all ranks"} by time (UTC); equal ones once`;
    this.notes.textContent = latest.problem || (latest.notes ?? []).join("; ");
  }
}
