// The page: its views of one document. The report has it inside; the live page is sent newer ones.

import type { PageDocument } from "./document";
import { counted, h, ranksOf, s } from "./dom";
import { Flame } from "./flame";
import { Grid } from "./grid";
import { lanesTable } from "./lanes";
import { Nodes } from "./nodes";
import { PageState } from "./page_state";
import { selectionBox } from "./selection_box";
import { Stacks } from "./stacks";
import { clock, day, Times } from "./times";
import { drawChain, verdictSection } from "./verdict";

const VIEWS = ["verdict", "ranks", "stacks", "collectives", "time", "nodes", "profile", "findings"] as const;
type View = (typeof VIEWS)[number];

/** Which parts of the document a view shows. */
const PARTS: Record<View, string[]> = {
  verdict: ["ranks", "verdict"],
  ranks: ["ranks", "colourings", "culprits"],
  stacks: ["ranks", "colourings", "culprits", "frames", "threads", "samples"],
  collectives: ["ranks", "culprits", "lanes", "more_lanes", "sentences"],
  time: ["ranks", "times"],
  nodes: ["ranks", "culprits", "nodes"],
  profile: ["ranks", "profile"],
  findings: ["findings"],
};

export interface PageWords {
  of: string; // what the page is, before the name of the job
  hasTime: boolean; // in its header
  foot: (HTMLElement | string)[];
  keys: [string, string][];
}

export class Page {
  readonly state: PageState;
  private readonly about = h("dl", { class: "about" });
  private readonly mark = s("path", { d: "M10 5.6L14.4 10L10 14.4L5.6 10Z" });
  private readonly main = h("main");
  private readonly box: HTMLElement;
  private grid: Grid | null = null;
  private stacks: Stacks | null = null;
  private times: Times | null = null;
  private nodes: Nodes | null = null;
  private flame: Flame | null = null;
  private width = innerWidth;

  constructor(shown: PageDocument, private readonly words: PageWords, controls: HTMLElement[] = [], private readonly rankTools: HTMLElement[] = []) {
    this.state = new PageState(shown);
    this.state.readAddress();
    this.box = selectionBox(this.state);
    const squares = s("path", { class: "fill-a", d: "M1 1h5v5h-5zM7.5 1h5v5h-5zM14 1h5v5h-5zM1 7.5h5v5h-5zM14 7.5h5v5h-5zM1 14h5v5h-5zM7.5 14h5v5h-5zM14 14h5v5h-5z" });
    const brand = h("div", { class: "brand" }, s("svg", { width: 20, height: 20, viewBox: "0 0 20 20", "aria-hidden": "true" }, squares, this.mark), "rankdbg");
    document.body.append(h("a", { class: "skip", href: "#verdict" }, "Skip to the verdict"), h("header", { class: "top" }, brand, this.about, this.box, ...controls), this.main);
    this.main.append(...VIEWS.map((view) => h("section", { id: view, hidden: true })), this.foot());
    this.drawHeader();
    for (const view of VIEWS) this.build(view);
    this.listen();
  }

  /** A newer document, and which parts of it are new. */
  update(newer: PageDocument, parts: Set<string>): void {
    if (this.state.document.verdict.culprits !== newer.verdict.culprits) parts.add("culprits");
    this.state.load(newer);
    this.drawHeader();
    const scrolled = scrollY;
    for (const view of VIEWS) if (PARTS[view].some((part) => parts.has(part))) this.build(view);
    scrollTo({ top: scrolled, behavior: "instant" });
    this.state.dropWatchers();
    this.state.notify();
  }

  /** Colours the grid by this, or as at first. */
  paintBy(colouring: string): void {
    this.state.colouring = Math.max(0, this.state.document.colourings.findIndex((each) => each.name === colouring));
    this.build("ranks");
    this.state.writeAddress();
  }

  // ---- the header

  private drawHeader(): void {
    const { job, target, time, ranks } = this.state.document;
    const hosts = ranks.hosts.filter(Boolean).length;
    const mesh = ranks.dimensions.map((name, index) => `${name}=${this.state.ranks.extent(index).length}`).join(" ");
    const where = hosts > 1 ? ` on ${counted(hosts)} nodes` : hosts === 1 ? ` on ${ranks.hosts.find(Boolean)}` : "";
    const facts: HTMLElement[] = [];
    const add = (name: string, text: string, wide = false): void => {
      if (text) facts.push(h("div", { class: wide ? "wide" : null }, h("dt", {}, name), h("dd", { title: text }, text)));
    };
    add(this.words.of, job);
    add("target", target);
    add("ranks", this.state.ranks.size ? `${ranksOf(this.state.ranks.size).replace(/ ranks?$/, "")}${where}` : "");
    add("mesh", mesh, true);
    if (this.words.hasTime) add("data of", moment(time));
    this.about.replaceChildren(...facts);
    this.mark.setAttribute("class", this.state.culpritCount ? "fill-hot" : "fill-b");
    this.box.hidden = !this.state.ranks.size;
    const { title } = this.state.document.verdict;
    document.title = `${title} ${job}`.trim();
  }

  // ---- the views

  private build(view: View): void {
    const old = document.getElementById(view)!;
    const focus = placeOfFocus(old);
    const made = this.sectionOf(view);
    old.replaceWith(made);
    this.draw(view);
    restoreFocus(made, focus);
  }

  private sectionOf(view: View): HTMLElement {
    const { state } = this;
    const nothing = h("section", { id: view, hidden: true });
    if (view === "verdict") return verdictSection(state);
    if (view === "ranks") {
      this.grid = null;
      if (!state.ranks.size) return nothing;
      const { section, tools } = headed(view, "Ranks", saysOfRanks(state));
      this.grid = new Grid(state, tools);
      tools.prepend(...this.rankTools);
      section.append(...this.grid.elements);
      return section;
    }
    if (view === "stacks") {
      this.stacks = null;
      if (!state.document.frames.length) return nothing;
      const { section, tools } = headed(view, "Merged stacks", saysOfStacks(state));
      this.stacks = new Stacks(state, tools);
      section.append(...this.stacks.elements);
      return section;
    }
    if (view === "time") {
      this.times = null;
      if (!state.document.times) return nothing;
      const { section, tools } = headed(view, "Time", saysOfTime(state));
      this.times = new Times(state, tools);
      section.append(...this.times.elements);
      return section;
    }
    if (view === "nodes") {
      this.nodes = null;
      if (!state.document.nodes) return nothing;
      const { section, tools } = headed(view, "Nodes", "");
      this.nodes = new Nodes(state, tools);
      tools.before(this.nodes.saying);
      section.append(...this.nodes.elements);
      return section;
    }
    if (view === "profile") {
      this.flame = null;
      if (!state.document.profile) return nothing;
      const { section, tools } = headed(view, "Profile", "");
      this.flame = new Flame(state, tools);
      tools.before(this.flame.saying);
      section.append(...this.flame.elements);
      return section;
    }
    if (view === "findings") {
      if (!state.document.findings) return nothing;
      const text = h("pre", { class: "logs", tabindex: 0, role: "region", "aria-label": "All findings" }, state.document.findings);
      return h("section", { id: view }, h("details", {}, h("summary", {}, "All findings, as text"), text));
    }
    if (!state.document.lanes.length) return nothing;
    const { section } = headed(view, "Collectives", "by torch's flight recorder: a lane for each group, or for groups in the same situation");
    section.append(...lanesTable(state));
    return section;
  }

  private draw(view: View): void {
    if (view === "verdict") drawChain(this.state);
    else if (view === "ranks") this.grid?.draw();
    else if (view === "stacks") this.stacks?.rebuild();
    else if (view === "time") this.times?.draw();
    else if (view === "nodes") this.nodes?.draw();
    else if (view === "profile") this.flame?.draw();
  }

  private foot(): HTMLElement {
    const known = this.words.keys.filter(([key]) => key !== "f" || this.state.document.frames.length || this.state.document.profile);
    const keys = known.flatMap(([key, does], index) => [index ? ", " : " Keys: ", h("kbd", {}, key), ` ${does}`]);
    return h("section", { class: "foot" }, h("p", {}, ...this.words.foot, ...keys, "."));
  }

  // ---- keys and sizes

  private listen(): void {
    addEventListener("resize", () => {
      if (innerWidth !== this.width) requestAnimationFrame(() => VIEWS.forEach((view) => this.redraw(view)));
      this.width = innerWidth;
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.grid?.draw());
    addEventListener("beforeprint", () => this.grid?.draw());
    addEventListener("keydown", (event) => {
      const target = event.target as Element;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (/INPUT|SELECT/.test(target.tagName)) {
        if (event.key === "Escape") (target as HTMLElement).blur();
        return;
      }
      if (event.key === "/") document.getElementById("selection")?.focus();
      else if (event.key === "f") (this.stacks ?? this.flame)?.focusSearch();
      else if (event.key === "Escape") this.state.clear();
      else return;
      event.preventDefault();
    });
  }

  private redraw(view: View): void {
    if (view === "stacks") this.stacks?.draw();
    else this.draw(view);
  }
}

function headed(id: string, title: string, says: string): { section: HTMLElement; tools: HTMLElement } {
  const tools = h("div", { class: "tools" });
  const heading = h("div", { class: "heading" }, h("h2", { id: `${id}-title` }, title), says ? h("p", { class: "says" }, says) : null, tools);
  return { section: h("section", { id, "aria-labelledby": `${id}-title` }, heading), tools };
}

function saysOfRanks(state: PageState): string {
  const { name, classes } = state.document.colourings[0];
  const groups = classes.length;
  const outside = state.ranks.outside.reduce((sum, each) => sum + each, 0);
  const says = [`${ranksOf(state.ranks.size)} in ${counted(groups)} ${groups === 1 ? "group" : "groups"} ${name === "equal stacks" ? "of" : "by"} ${name}`, outside ? `${counted(outside)} without a full answer` : ""];
  return says.filter(Boolean).join("; ");
}

function saysOfStacks(state: PageState): string {
  const moving = state.document.threads[0].groups.some((group) => group.moving);
  const { samples } = state.document;
  if (samples <= 1) return "one sample";
  return moving ? `${samples} samples; ranks that moved are shown by what their samples share` : `nothing moved in ${samples} samples`;
}

/** Logs rarely say in which zone their clocks are. */
function saysOfTime(state: PageState): string {
  const { begin, end } = state.document.times!;
  if (end <= begin) return "by the logs, which have no clocks";
  const [first, last] = [day(begin), day(end)];
  return `${first}, ${clock(begin)} to ${first === last ? "" : `${last}, `}${clock(end)}, by the clocks of the logs`;
}

/** 18 November, 03:11:26 UTC: a report is read hours later, and far away. */
function moment(time: string): string {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return time;
  const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" }).format(date);
  return `${day}, ${clockTime(time)}`;
}

export function clockTime(time: string): string {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? time : `${date.toISOString().slice(11, 19)} UTC`;
}

// ---- the focus stays where it is when a view is built again

interface Focus {
  way: number[];
  tag: string;
  caret: number | null;
}

function placeOfFocus(view: Element): Focus | null {
  const active = document.activeElement;
  if (!active || !view.contains(active)) return null;
  const way: number[] = [];
  for (let each: Element = active; each !== view; each = each.parentElement!) way.unshift([...each.parentElement!.children].indexOf(each));
  return { way, tag: active.tagName, caret: active instanceof HTMLInputElement && active.type !== "radio" ? active.selectionStart : null };
}

function restoreFocus(view: Element, focus: Focus | null): void {
  if (!focus) return;
  let element: Element | undefined = view;
  for (const index of focus.way) element = element?.children[index];
  if (element?.tagName !== focus.tag) return;
  (element as HTMLElement).focus({ preventScroll: true });
  if (focus.caret !== null) (element as HTMLInputElement).setSelectionRange(focus.caret, focus.caret);
}
