// Merged stacks: an icicle in which each frame has the ranks that pass through it.

import type { FrameView } from "./document";
import { counted, h, hideTip, ranksOf, shortened, showTip } from "./dom";
import { choice } from "./grid";
import { LETTER, moveFocus, NARROWEST, placeFrame, ROW } from "./icicle";
import type { Choice, PageState } from "./page_state";
import { placesOf, type Mask } from "./sets";

const DEEPEST = 24; // frames; above that only the user's are shown at first

class TreeFrame {
  readonly children = new Map<number, TreeFrame>();
  readonly places: number[] = [];
  moving = false;
  private own: Mask | null = null;

  constructor(readonly frame: number, readonly depth: number, readonly parent: TreeFrame | null, private readonly size: number) {}

  get mask(): Mask {
    if (!this.own) {
      this.own = new Uint8Array(this.size);
      for (const place of this.places) this.own[place] = 1;
    }
    return this.own;
  }

  /** How many different ends it has. */
  leaves(): number {
    let sum = 0;
    for (const child of this.children.values()) sum += child.leaves();
    return Math.max(1, sum);
  }

  /** The smallest branch last, where the eye ends; of branches as small, that of the culprit. */
  ordered(culprits: Mask): TreeFrame[] {
    const isHot = (tree: TreeFrame): number => Number(tree.places.some((place) => culprits[place]));
    return [...this.children.values()].sort((a, b) => b.places.length - a.places.length || isHot(a) - isHot(b));
  }
}

export class Stacks {
  private readonly icicle = h("div", { class: "icicle" });
  private readonly aside = h("div", { class: "aside" });
  private readonly search = h("input", { class: "field", type: "search", placeholder: "Search frames (f)", "aria-label": "Search frames" });
  private readonly found = h("span", { class: "dim", role: "status" });
  private thread = 0;
  private byRanks = false;
  private ownOnly: boolean;
  private root!: TreeFrame;
  private zoomed: TreeFrame | null = null;
  private chosen: TreeFrame | null = null;
  private buttons: { button: HTMLButtonElement; tree: TreeFrame }[] = [];

  constructor(private readonly state: PageState, tools: HTMLElement) {
    const { threads, frames } = state.document;
    const { chosen } = state;
    const deepest = Math.max(0, ...threads[0].groups.map((group) => group.frames.length));
    const hasOwn = frames.some((frame) => frame.own);
    this.ownOnly = hasOwn && (chosen.frames ? chosen.frames === "yours" : deepest > DEEPEST);
    this.byRanks = chosen.width === "ranks";
    this.thread = Math.max(0, threads.findIndex((each) => each.name === chosen.thread));
    this.search.value = chosen.find;
    if (threads.length > 1) tools.append(choice("thread", threads.map((each) => each.name), this.thread, (index) => this.choose("thread", index ? threads[index].name : "", () => (this.thread = index))));
    if (hasOwn) tools.append(choice("frames", ["all", "yours"], this.ownOnly ? 1 : 0, (index) => this.choose("frames", index ? "yours" : "all", () => (this.ownOnly = index === 1))));
    tools.append(choice("width", ["groups", "ranks"], this.byRanks ? 1 : 0, (index) => this.choose("width", index ? "ranks" : "", () => (this.byRanks = index === 1))));
    tools.append(this.search, this.found);
    this.search.addEventListener("input", () => {
      state.choose("find", this.search.value.trim());
      this.paint();
    });
    this.search.addEventListener("keydown", (event) => { if (event.key === "Enter") this.selectFound(); });
    state.watch(() => this.paint(), this.icicle);
  }

  private choose(name: Choice, value: string, apply: () => void): void {
    apply();
    this.state.choose(name, value);
    this.rebuild();
  }

  get elements(): HTMLElement[] {
    return [h("div", { class: "stacks" }, this.icicle, this.aside)];
  }

  focusSearch(): void {
    this.search.focus();
  }

  rebuild(): void {
    const { document, ranks } = this.state;
    this.root = new TreeFrame(-1, -1, null, ranks.size);
    for (const group of document.threads[this.thread].groups) {
      const places = placesOf(group.ranks);
      let tree = this.root;
      tree.places.push(...places);
      group.frames.forEach((frame, index) => {
        if (this.ownOnly && !document.frames[frame].own && index < group.frames.length - 1) return;
        let child = tree.children.get(frame);
        if (!child) tree.children.set(frame, (child = new TreeFrame(frame, tree.depth + 1, tree, ranks.size)));
        child.places.push(...places);
        tree = child;
      });
      tree.moving ||= group.moving;
    }
    this.zoomed = this.treeAt(this.state.kept.get("zoomed"));
    this.chosen = this.treeAt(this.state.kept.get("frame"));
    if (this.chosen) this.describe(this.chosen);
    this.draw();
  }

  /** The frames that lead to it: their numbers are of one document alone. */
  private way(tree: TreeFrame | null): string {
    const names: string[] = [];
    for (let each = tree; each && each !== this.root; each = each.parent) names.unshift(this.nameOf(each));
    return names.join("\n");
  }

  private nameOf(tree: TreeFrame): string {
    const { file, line, function: name } = this.frame(tree);
    return `${file}:${line} ${name}`;
  }

  private treeAt(way: string | undefined): TreeFrame | null {
    let tree: TreeFrame | null = way ? this.root : null;
    for (const name of way?.split("\n") ?? []) tree = [...(tree?.children.values() ?? [])].find((child) => this.nameOf(child) === name) ?? null;
    return tree;
  }

  draw(): void {
    this.buttons = [];
    const width = this.icicle.clientWidth;
    const shown: HTMLElement[] = [];
    const start = this.zoomed ?? this.root;
    let depth = 0;
    const weight = (tree: TreeFrame): number => (this.byRanks ? tree.places.length : tree.leaves());
    const add = (tree: TreeFrame, x: number, wide: number, row: number): void => {
      if (tree !== this.root) {
        shown.push(this.button(tree, x, wide, row));
        depth = Math.max(depth, row + 1);
      }
      const below = tree === this.root ? row : row + 1;
      const children = tree.ordered(this.state.culprits);
      const whole = Math.max(this.byRanks ? tree.places.length : 0, children.reduce((sum, child) => sum + weight(child), 0));
      let at = x;
      const narrow: TreeFrame[] = [];
      for (const child of children) {
        const part = (wide * weight(child)) / whole;
        if (part < NARROWEST && children.length > 1) narrow.push(child);
        else {
          add(child, at, part, below);
          at += part;
        }
      }
      if (narrow.length) {
        shown.push(this.rest(tree, narrow, at, x + wide - at, below));
        depth = Math.max(depth, below + 1);
      }
    };
    const path: TreeFrame[] = [];
    for (let tree = this.zoomed?.parent ?? null; tree && tree !== this.root; tree = tree.parent) path.unshift(tree);
    path.forEach((tree, row) => shown.push(this.button(tree, 0, width, row)));
    add(start, 0, width, path.length);
    this.icicle.style.height = `${Math.max(depth, 1) * ROW}px`;
    this.icicle.replaceChildren(...(shown.length ? shown : [h("p", { class: "dim" }, "No stack could be read.")]));
    if (!this.chosen) this.describe(this.oddest());
    this.paint();
  }

  private button(tree: TreeFrame, x: number, wide: number, row: number): HTMLButtonElement {
    const frame = this.frame(tree);
    const count = tree.places.length;
    const differs = !tree.parent || tree.parent.places.length !== count;
    const name = h("span", { class: "function" }, frame.function);
    // A name comes first; a file name cut to a few letters says nothing.
    const left = wide - 22 - LETTER * frame.function.length;
    const told = count === 1 ? this.state.ranks.name(tree.places[0]) : counted(count);
    const size = differs && left > LETTER * told.length ? h("span", { class: "count" }, told) : null;
    const at = left - (size ? LETTER * told.length + 8 : 0) > Math.min(60, LETTER * frame.at.length) ? h("span", { class: "at" }, frame.at) : null;
    // What has no room is still read aloud.
    const unseen = h("span", { class: "hidden" }, [at ? "" : frame.at, size ? "" : ranksOf(count)].join(" ").trim());
    const button = h("button", { type: "button", class: `frame ${this.fillOf(tree)}`.trim() }, name, " ", at, " ", size, " ", unseen);
    placeFrame(button, x, wide, row);
    button.addEventListener("click", () => {
      this.chosen = tree;
      this.state.kept.set("frame", this.way(tree));
      this.describe(tree);
      this.state.toggle(tree.mask);
    });
    button.addEventListener("dblclick", () => this.zoomTo(tree));
    button.addEventListener("keydown", (event) => moveFocus(event, button, this.buttons.map((each) => each.button)));
    button.addEventListener("pointermove", (event) => showTip(event, `${frame.function}  ${frame.at}`, [ranksOf(count), shortened(this.state.ranks.text(tree.mask), 70), tree.moving ? "moving" : ""]));
    button.addEventListener("pointerleave", hideTip);
    this.buttons.push({ button, tree });
    return button;
  }

  private rest(parent: TreeFrame, narrow: TreeFrame[], x: number, wide: number, row: number): HTMLButtonElement {
    const ranks = narrow.reduce((sum, tree) => sum + tree.places.length, 0);
    const button = h("button", { type: "button", class: "frame rest" }, `+${counted(narrow.length)}`, h("span", { class: "hidden" }, ` branches, ${ranksOf(ranks)}`));
    placeFrame(button, x, wide, row);
    const only = narrow.length === 1 ? narrow[0] : parent;
    button.addEventListener("click", () => this.zoomTo(only === this.zoomed || only === this.root ? narrow[0] : only));
    button.addEventListener("pointermove", (event) => showTip(event, `${counted(narrow.length)} more branches`, [ranksOf(ranks), "click to enlarge"]));
    button.addEventListener("pointerleave", hideTip);
    return button;
  }

  private zoomTo(tree: TreeFrame): void {
    this.zoomed = this.zoomed === tree ? null : tree;
    this.state.kept.set("zoomed", this.way(this.zoomed));
    hideTip();
    this.draw();
  }

  private frame = (tree: TreeFrame): FrameView => this.state.document.frames[tree.frame];

  /** The colour of the one group that passes through it, as in the grid. */
  private fillOf(tree: TreeFrame): string {
    const column = this.state.classOf[0];
    const first = column[tree.places[0]];
    if (tree.places.length === this.state.ranks.size && this.state.document.colourings[0].classes.length > 1) return "";
    const isOne = first >= 0 && tree.places.every((place) => column[place] === first);
    return isOne ? `group-${this.state.fills[0][first]}` : "";
  }

  /** The line of the culprit that is the user's own; else of the smallest branch. */
  private oddest(): TreeFrame | null {
    let tree: TreeFrame = this.root;
    let best: TreeFrame | null = null;
    while (tree.children.size) {
      const children = tree.ordered(this.state.culprits);
      tree = children.find((child) => child.places.some((place) => this.state.culprits[place])) ?? children.at(-1)!;
      if (this.frame(tree).own || !best) best = tree;
    }
    return best;
  }

  private describe(tree: TreeFrame | null): void {
    if (!tree) return this.aside.replaceChildren();
    const frame = this.frame(tree);
    const { ranks, document } = this.state;
    const list = h("dl", { class: "pairs" });
    const add = (name: string, ...parts: (string | HTMLElement)[]): void => list.append(h("dt", {}, name), h("dd", {}, ...parts));
    add("ranks", `${counted(tree.places.length)}: `, h("code", {}, shortened(ranks.text(tree.mask), 120)));
    if (tree.places.length === 1) add("place", [ranks.coordinates(tree.places[0]), ranks.process(tree.places[0])].filter(Boolean).join(" · "));
    if (document.samples) add("samples", `${document.samples}${tree.children.size ? "" : tree.moving ? ", and its lines changed" : ", all in this line"}`);
    for (const group of document.colourings[0].classes) if (!tree.children.size && group.says && sameSet(placesOf(group.ranks), tree.places)) add("does", group.says);
    const zoom = h("button", { type: "button", class: "button" }, this.zoomed ? "Show all" : "Enlarge");
    zoom.addEventListener("click", () => this.zoomTo(this.zoomed ?? tree));
    this.aside.replaceChildren(h("h3", {}, h("code", {}, frame.function)), h("p", { class: "path" }, frame.line ? `${frame.file}:${frame.line}` : frame.file), list, zoom);
  }

  private paint(): void {
    const { state } = this;
    const wanted = this.search.value.trim().toLowerCase();
    let hits = 0;
    for (const { button, tree } of this.buttons) {
      const isHit = wanted !== "" && this.matches(tree, wanted);
      if (isHit) hits++;
      button.classList.toggle("hit", isHit);
      button.classList.toggle("on", tree === this.chosen && state.isSelected(tree.mask));
      button.classList.toggle("miss", state.hasSelection && !tree.places.some((place) => state.selected[place]));
    }
    this.found.textContent = wanted ? `${counted(hits)} ${hits === 1 ? "frame" : "frames"}` : "";
  }

  private matches(tree: TreeFrame, wanted: string): boolean {
    const frame = this.frame(tree);
    return `${frame.function} ${frame.at}`.toLowerCase().includes(wanted);
  }

  /** Enter in the search box: all ranks that pass through a frame that was found. */
  private selectFound(): void {
    const wanted = this.search.value.trim().toLowerCase();
    if (!wanted) return;
    const mask = new Uint8Array(this.state.ranks.size);
    const walk = (tree: TreeFrame): void => {
      if (tree !== this.root && this.matches(tree, wanted)) for (const place of tree.places) mask[place] = 1;
      else for (const child of tree.children.values()) walk(child);
    };
    walk(this.root);
    this.state.select(mask);
  }
}

const sameSet = (one: number[], other: number[]): boolean => one.length === other.length && one.every((place, index) => place === other[index]);
