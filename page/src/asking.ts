// A box to ask ranks for a value: the grid is painted by what they answer.

import type { Answer, Connection } from "./connection";
import type { Colouring, PageDocument } from "./document";
import { h, shortened } from "./dom";
import { clockTime } from "./page";

export class Asking {
  private readonly input = h("input", { class: "field code", spellcheck: "false", autocomplete: "off", placeholder: "loss", "aria-describedby": "ask-problem" });
  private readonly under = h("span", { class: "dim", role: "status" });
  private readonly problem = h("div", { id: "ask-problem", class: "problem", role: "alert", hidden: true });
  readonly form = h("form", { class: "ask" }, h("label", {}, "ask"), this.input, this.under, this.problem);
  private colouring: Colouring | null = null;
  private asked = "";
  private processes = "";

  constructor(private readonly connection: Connection, private readonly onClear: () => void) {
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask(this.input.value.trim());
    });
    this.form.querySelector("label")!.htmlFor = this.input.id = "ask";
    this.input.addEventListener("input", () => this.say(""));
  }

  /** What the grid is painted by; `` if nothing is asked. */
  get name(): string {
    return this.colouring?.name ?? "";
  }

  get expression(): string {
    return this.colouring ? this.asked : "";
  }

  ask(expression: string): void {
    if (this.input.value.trim() !== expression) this.input.value = expression;
    if (!expression) return this.clear();
    if (this.connection.ask(expression)) this.say("", "asking …");
    else this.say("no connection");
  }

  private say(problem: string, under = ""): void {
    this.under.textContent = under;
    this.problem.textContent = problem;
    this.problem.hidden = !problem;
    this.input.setAttribute("aria-invalid", String(Boolean(problem)));
  }

  private clear(): void {
    this.say("");
    this.colouring = null;
    this.onClear();
  }

  /** `newest`: the document whose places it names. True if there is something to show. */
  take(answer: Answer, newest: PageDocument): boolean {
    this.say(answer.problem);
    if (!answer.colouring) return false;
    const [expression, type] = answer.colouring.columns;
    this.asked = answer.expression;
    this.colouring = { ...answer.colouring, name: `ask ${shortened(answer.expression, 24)}`, columns: [`${expression}, ${clockTime(new Date().toISOString())}`, type] };
    this.processes = JSON.stringify(newest.ranks.pids);
    return true;
  }

  /** The document with the answer as one more colouring, as long as it is about the same processes. */
  with(document: PageDocument): PageDocument {
    if (this.colouring && this.processes !== JSON.stringify(document.ranks.pids)) this.colouring = null;
    return this.colouring ? { ...document, colourings: [...document.colourings, this.colouring] } : document;
  }
}
