// The flame graph of a profile: as wide as the time of all ranks, and what some of them do more or less.

import type { FrameView, ProfileView } from "./document";
import { counted, h, hideTip, ranksOf, shortened, showTip } from "./dom";
import { choice } from "./grid";
import { LETTER, moveFocus, NARROWEST, placeFrame, ROW } from "./icicle";
import type { PageState } from "./page_state";
import { isSame, type Mask, maskOf } from "./sets";

const WHOLE = 10; // of the shares' unit in a percent
const MAIN = "MainThread"; // as py-spy calls it
const FAR = 1; // percent; a smaller difference is chance
const STANDS_OUT = 5; // percent above the usual
const DEEPEST = 160; // frames at a time
const MOST_LISTED = 3; // ranks at each end

class CallFrame {
  readonly children: CallFrame[] = [];
  private known: { median: number; ordered: number[] } | null = null;

  constructor(readonly frame: FrameView, readonly shares: number[], readonly parent: CallFrame | null) {}

  /** Of ten thousand ranks computed once. */
  get median(): number {
    return this.ends.median;
  }

  /** The profiles, those that do most of it first. */
  get ordered(): number[] {
    return this.ends.ordered;
  }

  private get ends(): { median: number; ordered: number[] } {
    if (!this.known) {
      const { shares } = this;
      const ordered = shares.map((_, index) => index).sort((a, b) => shares[b] - shares[a]);
      const half = ordered.length >> 1;
      this.known = { median: ordered.length % 2 ? shares[ordered[half]] : (shares[ordered[half - 1]] + shares[ordered[half]]) / 2, ordered };
    }
    return this.known;
  }
}

/** The profiles that are shown, and those that they are compared with: none, or each with its usual. */
interface Comparison {
  name: string;
  of: number[];
  with: number[];
}

export class Flame {
  private readonly profile: ProfileView;
  private readonly icicle = h("div", { class: "icicle" });
  private readonly aside = h("div", { class: "aside" });
  private readonly search = h("input", { class: "field", type: "search", placeholder: "Search frames (f)", "aria-label": "Search frames of the profile" });
  private readonly found = h("span", { class: "dim", role: "status" });
  private readonly says = h("p", { class: "says", role: "status" });
  private readonly root: CallFrame;
  private readonly everybody: number[];
  private comparison!: Comparison;
  private readonly threads: CallFrame[];
  private thread: number;
  private zoomed: CallFrame | null = null;
  private chosen: CallFrame | null = null;
  private readonly wide = new Map<CallFrame, number>();
  private readonly far = new Map<CallFrame, number>();
  private buttons: { button: HTMLButtonElement; call: CallFrame }[] = [];

  constructor(private readonly state: PageState, tools: HTMLElement) {
    this.profile = state.document.profile!;
    this.everybody = this.profile.ranks.map((_, index) => index);
    this.root = grown(this.profile);
    this.search.value = state.chosen.call;
    this.threads = [...this.root.children].sort((a, b) => Number(b.frame.function === MAIN) - Number(a.frame.function === MAIN));
    const names = this.threads.map((each) => each.frame.function);
    this.thread = Math.max(0, names.indexOf(state.chosen.thread));
    if (names.length > 1) tools.append(choice("thread", names, this.thread, (index) => {
      this.thread = index;
      this.zoomed = this.chosen = null;
      state.choose("thread", index ? names[index] : "");
      this.draw();
    }));
    if (this.profile.sides.length || this.hasSlowest) tools.append(choice("show", [this.profile.sides.length ? "difference" : state.document.verdict.mark, "all"], this.isDifference ? 0 : 1, (index) => {
      state.choose("flame", index ? "all" : "");
      this.draw();
    }));
    tools.append(this.search, this.found);
    this.search.addEventListener("input", () => {
      state.choose("call", this.search.value.trim());
      this.paint();
    });
    state.watch(() => this.draw(), this.icicle);
  }

  get elements(): HTMLElement[] {
    const { unit, least } = this.profile;
    const below = least ? ` Frames of less than ${least.toFixed(1)} % are left out.` : "";
    return [h("div", { class: "stacks flame" }, this.icicle, this.aside), h("p", { class: "dim legend-of-flame" }, h("span", { class: "sample more" }, "+"), " more than the others, ", h("span", { class: "sample less" }, "−"), ` less, in points of a percent. Width: share of the ${unit}.${below} Click selects the ranks that do more of it; double-click enlarges.`)];
  }

  get saying(): HTMLElement {
    return this.says;
  }

  focusSearch(): void {
    this.search.focus();
  }

  private get hasSlowest(): boolean {
    const { culprits, culpritsStandOut } = this.state;
    return culpritsStandOut && this.profilesIn(culprits).length < this.everybody.length;
  }

  /** What is drawn as wide as the picture. */
  private get top(): CallFrame {
    return this.threads[this.thread] ?? this.root;
  }

  private get isDifference(): boolean {
    return this.state.chosen.flame !== "all";
  }

  // ---- what is compared

  /** The selected ranks with the others; else the two sides, or the slowest; else each with what is usual. */
  private compared(): Comparison {
    const { state, profile, everybody } = this;
    const isIn = state.hasSelection ? this.profilesIn(state.selected) : [];
    if (isIn.length && isIn.length < everybody.length) return this.against(isIn, `ranks ${shortened(state.selectedText, 40)}`);
    if (profile.sides.length && this.isDifference) {
      const [first, second] = profile.sides.map((side) => this.profilesIn(state.mask(side.ranks)));
      return { name: `ranks ${profile.sides[1].name} against ${profile.sides[0].name}`, of: second, with: first };
    }
    if (this.hasSlowest && this.isDifference) {
      const slowest = this.profilesIn(state.culprits);
      return this.against(slowest, this.named(slowest));
    }
    return { name: everybody.length > 1 ? "all ranks, and where one differs from most" : this.named(everybody), of: everybody, with: [] };
  }

  private against(some: number[], name: string): Comparison {
    const isIn = new Set(some);
    return { name: `${some.length === 1 ? this.named(some) : name} against the others`, of: some, with: this.everybody.filter((index) => !isIn.has(index)) };
  }

  private profilesIn(mask: Mask): number[] {
    return this.everybody.filter((index) => mask[this.profile.ranks[index]]);
  }

  private named(profiles: number[]): string {
    if (profiles.length === 1) return this.state.ranks.name(this.profile.ranks[profiles[0]]);
    const mask = maskOf(profiles.map((index) => this.profile.ranks[index]), this.state.ranks.size);
    return `ranks ${shortened(this.state.ranks.text(mask), 40)}`;
  }

  /** In percent. Both sides are drawn as wide as the one that does more. */
  private width(call: CallFrame): number {
    let width = this.wide.get(call);
    if (width === undefined) {
      const own = mean(call.shares, this.comparison.of);
      width = Math.max(own, this.comparison.with.length ? mean(call.shares, this.comparison.with) : 0) / WHOLE;
      this.wide.set(call, width);
    }
    return width;
  }

  /** How much more, in points of a percent. */
  private more(call: CallFrame): number {
    let more = this.far.get(call);
    if (more === undefined) this.far.set(call, (more = this.difference(call)));
    return more;
  }

  private difference(call: CallFrame): number {
    const { of, with: others } = this.comparison;
    if (others.length) return (mean(call.shares, of) - mean(call.shares, others)) / WHOLE;
    if (this.everybody.length < 2) return 0;
    const { median: usual, ordered, shares } = call;
    const [most, least] = [shares[ordered[0]], shares[ordered.at(-1)!]];
    const far = (most - usual >= usual - least ? most - usual : least - usual) / WHOLE;
    return Math.abs(far) < STANDS_OUT ? 0 : far; // of many ranks some differ by chance
  }

  // ---- drawing

  draw(): void {
    this.comparison = this.compared();
    this.says.textContent = this.comparison.name;
    this.wide.clear();
    this.far.clear();
    this.buttons = [];
    const width = this.icicle.clientWidth;
    const shown: HTMLElement[] = [];
    const path: CallFrame[] = [];
    for (let call = this.zoomed?.parent ?? null; call && call !== this.root; call = call.parent) path.unshift(call);
    const above = path.slice(-4);
    above.forEach((call, row) => shown.push(this.button(call, 0, width, row)));
    let rows = above.length;
    const todo: [CallFrame, number, number, number][] = [[this.zoomed ?? this.top, 0, width, above.length]];
    for (let next = todo.pop(); next; next = todo.pop()) {
      const [call, x, wide, row] = next;
      shown.push(this.button(call, x, wide, row));
      rows = Math.max(rows, row + 1);
      if (!call.children.length) continue;
      if (row - above.length >= DEEPEST) {
        shown.push(this.rest(call, call.children, x, wide, row + 1));
        rows = Math.max(rows, row + 2);
        continue;
      }
      const whole = Math.max(this.width(call), call.children.reduce((sum, child) => sum + this.width(child), 0));
      const narrow: CallFrame[] = [];
      let at = x;
      for (const child of call.children) {
        const part = whole ? (wide * this.width(child)) / whole : 0;
        if (part < NARROWEST && wide > part) narrow.push(child);
        else {
          todo.push([child, at, part, row + 1]);
          at += part;
        }
      }
      const left = (wide * narrow.reduce((sum, child) => sum + this.width(child), 0)) / (whole || 1);
      if (narrow.length && left >= NARROWEST / 4) {
        shown.push(this.rest(call, narrow, at, left, row + 1));
        rows = Math.max(rows, row + 2);
      }
    }
    this.icicle.style.height = `${rows * ROW}px`;
    this.icicle.replaceChildren(...shown);
    this.describe(this.chosen ?? this.oddest());
    this.paint();
  }

  private button(call: CallFrame, x: number, wide: number, row: number): HTMLButtonElement {
    const { frame } = call;
    const more = this.more(call);
    const told = `${percent(this.width(call))}${signed(more)}`;
    const left = wide - 22 - LETTER * frame.function.length;
    // Where there is no room for more, the sign: it says what the colour says.
    const shown = left > LETTER * told.length ? told : wide > 2 * NARROWEST ? signed(more).trim() : "";
    const size = shown ? h("span", { class: "count" }, shown) : null;
    const at = left - (size ? LETTER * told.length + 8 : 0) > Math.min(60, LETTER * frame.at.length) ? h("span", { class: "at" }, frame.at) : null;
    const unseen = h("span", { class: "hidden" }, [at ? "" : frame.at, shown === told ? "" : told].join(" ").trim());
    const button = h("button", { type: "button", class: `frame ${tint(more)}`.trim() }, h("span", { class: "function" }, frame.function), " ", at, " ", size, " ", unseen);
    placeFrame(button, x, wide, row);
    button.addEventListener("click", () => this.choose(call));
    button.addEventListener("dblclick", () => this.zoomTo(call));
    button.addEventListener("keydown", (event) => moveFocus(event, button, this.buttons.map((each) => each.button)));
    button.addEventListener("pointermove", (event) => showTip(event, `${frame.function}  ${frame.at}`, [told]));
    button.addEventListener("pointerleave", hideTip);
    this.buttons.push({ button, call });
    return button;
  }

  private rest(call: CallFrame, narrow: CallFrame[], x: number, wide: number, row: number): HTMLButtonElement {
    const button = h("button", { type: "button", class: "frame rest" }, wide >= NARROWEST ? `+${counted(narrow.length)}` : "", h("span", { class: "hidden" }, ` ${counted(narrow.length)} more frames`));
    placeFrame(button, x, wide, row);
    button.addEventListener("click", () => this.zoomTo(call === (this.zoomed ?? this.top) ? narrow[0] : call));
    button.addEventListener("pointermove", (event) => showTip(event, `${counted(narrow.length)} more frames`, ["click to enlarge"]));
    button.addEventListener("pointerleave", hideTip);
    return button;
  }

  private zoomTo(call: CallFrame): void {
    this.zoomed = this.zoomed === call || call === this.top ? null : call;
    hideTip();
    this.draw();
  }

  // ---- the ranks of a frame

  private choose(call: CallFrame): void {
    this.chosen = call;
    const profiles = standingOut(call);
    const mask = maskOf(profiles.map((index) => this.profile.ranks[index]), this.state.ranks.size);
    const isAll = profiles.length === this.everybody.length;
    if (isAll && this.state.hasSelection) this.draw(); // what all do alike leaves the selection as it is
    else if (isAll) this.describe(call), this.paint();
    else if (isSame(mask, this.state.selected)) this.state.clear();
    else this.state.select(mask);
  }

  /** What is done more, by most; else what is done less. */
  private oddest(): CallFrame {
    let [best, most] = [this.top, 0];
    for (const { call } of this.buttons) {
      const more = this.more(call) > 0 ? this.more(call) : -this.more(call) / 4;
      if (more > most + 0.05 || (more >= most && call.frame.own)) [best, most] = [call, more];
    }
    return best;
  }

  private describe(call: CallFrame): void {
    const { frame, shares } = call;
    const { of, with: others } = this.comparison;
    const list = h("dl", { class: "pairs" });
    const add = (name: string, ...parts: (string | HTMLElement)[]): void => list.append(h("dt", {}, name), h("dd", {}, ...parts));
    if (others.length) {
      add("these", percent(mean(shares, of) / WHOLE), ` of ${ranksOf(of.length)}`);
      add("others", percent(mean(shares, others) / WHOLE), ` of ${ranksOf(others.length)}`);
    }
    if (this.everybody.length > 1) {
      add("median", percent(call.median / WHOLE), `, in ${ranksOf(shares.filter((share) => share > 0).length)}`);
      const { ordered } = call;
      const ends = ordered.length <= 2 * MOST_LISTED ? ordered : [...ordered.slice(0, MOST_LISTED), ...ordered.slice(-MOST_LISTED)];
      for (const index of ends) add(this.state.ranks.name(this.profile.ranks[index]), percent(shares[index] / WHOLE));
    } else add("share", percent(shares[0] / WHOLE));
    const zoom = h("button", { type: "button", class: "button" }, this.zoomed ? "Show all" : "Enlarge");
    zoom.addEventListener("click", () => this.zoomTo(this.zoomed ?? call));
    this.aside.replaceChildren(h("h3", {}, h("code", {}, frame.function)), h("p", { class: "path" }, frame.line ? `${frame.file}:${frame.line}` : frame.file), list, zoom);
  }

  private paint(): void {
    const wanted = this.search.value.trim().toLowerCase();
    let hits = 0;
    for (const { button, call } of this.buttons) {
      const isHit = wanted !== "" && `${call.frame.function} ${call.frame.at}`.toLowerCase().includes(wanted);
      if (isHit) hits++;
      button.classList.toggle("hit", isHit);
      button.classList.toggle("on", call === this.chosen);
    }
    this.found.textContent = wanted ? `${counted(hits)} ${hits === 1 ? "frame" : "frames"}` : "";
  }
}

/** Nodes have the numbers of their parents; those with the shares of their parent say no more. */
function grown(profile: ProfileView): CallFrame {
  const calls: CallFrame[] = [];
  profile.parents.forEach((parent, number) => {
    const above = calls[parent] ?? null;
    const call = new CallFrame(profile.frames[profile.frame[number]], profile.shares[number] ?? above!.shares, above);
    above?.children.push(call);
    calls.push(call);
  });
  for (const call of calls) call.children.sort((a, b) => sum(b.shares) - sum(a.shares));
  return calls[0];
}

/** The profiles in which it is far above the usual; without such, those that have it. */
function standingOut({ shares, median }: CallFrame): number[] {
  const far = indices(shares, (share) => share - median >= STANDS_OUT * WHOLE);
  return far.length ? far : indices(shares, (share) => share > 0);
}

const indices = (shares: number[], isIn: (share: number) => boolean): number[] => shares.flatMap((share, index) => (isIn(share) ? [index] : []));
const sum = (values: number[]): number => values.reduce((all, value) => all + value, 0);
const mean = (shares: number[], of: number[]): number => of.reduce((all, index) => all + shares[index], 0) / of.length;

const percent = (value: number): string => `${value.toFixed(value < 10 && value > 0 ? 1 : 0)} %`;
const signed = (more: number): string => (Math.abs(more) < FAR ? "" : more > 0 ? ` +${more.toFixed(0)}` : ` −${Math.abs(more).toFixed(0)}`);

/** Three strengths each: more is warm, less is cool; the sign in the text says it too. */
function tint(more: number): string {
  const size = Math.abs(more);
  if (size < FAR) return "";
  return `${more > 0 ? "more" : "less"}-${size < 5 ? 1 : size < 15 ? 2 : 3}`;
}
