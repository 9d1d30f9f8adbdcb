// Time: what happened when, by the logs. Events, the phases of equal ranks, and the numbers of the steps.

import type { ChartView, MarkView, PhaseRow, TimeView } from "./document";
import { counted, h, hideTip, lasting, onPick, ranksOf, s, shortened, showTip, textWidth, zoom } from "./dom";
import { choice } from "./grid";
import { FILLS, type PageState } from "./page_state";
import { placesOf } from "./sets";

const LEFT = 168;
const RIGHT = 132;
const SLOT = 18; // height of a line of events
const MOST_SLOTS = 8;
const ROW = 20;
const CHART = 76;
const BETWEEN = 26;
const FONT = "12px";
const SPANS: [string, number][] = [["1 h", 3600], ["10 min", 600], ["1 min", 60]];
const LEAST_DRAG = 6;

type Svg = SVGElement;

export class Times {
  private readonly figure = h("figure", { class: "times" });
  private readonly times: TimeView;
  private readonly fills: string[];
  private readonly whole: boolean; // whether there are any clocks
  private x = (_: number): number => LEFT;
  private end = 0;
  private dragged: Svg | null = null;

  constructor(private readonly state: PageState, private readonly tools: HTMLElement) {
    this.times = state.document.times!;
    this.whole = this.times.end > this.times.begin;
    this.fills = fillsOf(this.times);
    this.addTools();
    state.watch(() => this.fade(), this.figure);
  }

  get elements(): HTMLElement[] {
    return [this.figure, ...(this.times.more_rows ? [h("p", { class: "dim" }, `and ${counted(this.times.more_rows)} more groups of ranks: rankdbg phases`)] : [])];
  }

  // ---- which time is shown

  private get span(): [number, number] {
    const { begin, end } = this.times;
    const [from, to] = this.state.chosen.time.split("-").map(Number);
    return from < to && from >= begin - 1 && to <= end + 1 ? [from, to] : [begin, end];
  }

  private get isWhole(): boolean {
    const [from, to] = this.span;
    return from === this.times.begin && to === this.times.end;
  }

  private show(from: number, to: number): void {
    const isWhole = from <= this.times.begin && to >= this.times.end;
    this.state.choose("time", isWhole ? "" : `${from.toFixed(1)}-${to.toFixed(1)}`);
    this.addTools();
    this.draw();
  }

  /** The end of the job, or the cause with a little of what followed. */
  private around(seconds: number): void {
    const { begin, end, marks } = this.times;
    const cause = marks.find((mark) => mark.kind === "cause");
    const to = Math.min(end, (cause ? cause.time : end) + seconds / 4);
    this.show(Math.max(begin, to - seconds), to);
  }

  private addTools(): void {
    const { begin, end, phases } = this.times;
    const spans = SPANS.filter(([, seconds]) => seconds * 1.5 < end - begin);
    const [from, to] = this.span;
    const chosen = this.isWhole ? 0 : 1 + spans.findIndex(([, seconds]) => Math.abs(to - from - seconds) < 1);
    const key = h("p", { class: "key" }, ...this.key().map(([fill, names]) => h("span", { title: names }, s("svg", { width: 12, height: 10, "aria-hidden": "true" }, s("rect", { class: `fill-${fill}`, x: 0.5, y: 0.5, width: 11, height: 9 })), shortened(names, 40))));
    const range = choice("show", ["all", ...spans.map(([text]) => text)], chosen || (this.isWhole ? 0 : -1), (index) => (index ? this.around(spans[index - 1][1]) : this.show(begin, end)));
    const hadFocus = this.tools.contains(document.activeElement);
    this.tools.replaceChildren(phases.length ? key : "", spans.length || !this.isWhole ? range : "");
    if (hadFocus) (range.querySelector("input:checked, select") as HTMLElement | null)?.focus({ preventScroll: true });
  }

  /** Of each colour the phases that have it, the longest phase first. */
  private key(): [string, string][] {
    const named = FILLS.map((fill): [string, string] => [fill, this.times.phases.filter((_, index) => this.fills[index] === fill).join(", ")]);
    return named.filter(([, names]) => names);
  }

  // ---- drawing

  draw(): void {
    const { rows, charts, marks } = this.times;
    const width = this.figure.clientWidth;
    const [from, to] = this.span;
    this.end = Math.max(LEFT + 100, width - RIGHT);
    this.x = (time) => LEFT + ((time - from) / (to - from || 1)) * (this.end - LEFT);
    const shown = marks.filter((mark) => mark.time >= from && mark.time <= to);
    const placed = this.inSlots(shown, width);
    const top = shown.length ? 14 + SLOT * (1 + Math.max(...placed)) : 4;
    const below = top + ROW * rows.length + (rows.length ? BETWEEN : 0);
    const height = below + charts.length * (CHART + BETWEEN) + 4;
    const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Events, phases and the numbers of the steps, over time" });
    const lined = charts.every((chart) => chart.times.length) ? height - BETWEEN : below - BETWEEN;
    if (this.whole) this.drawClock(svg, top - 4, lined, lined + 16);
    this.drawLines(svg, shown, placed, lined);
    rows.forEach((row, index) => svg.append(this.drawRow(row, top + index * ROW)));
    charts.forEach((chart, index) => this.drawChart(svg, chart, below + index * (CHART + BETWEEN)));
    shown.forEach((mark, index) => svg.append(this.drawMark(mark, 12 + SLOT * placed[index], width)));
    this.listen(svg, height);
    this.figure.replaceChildren(svg);
    this.fade();
  }

  /** What is drawn in it is cut off before and after the time that is shown. */
  private window(y: number, height: number): Svg {
    const width = this.end - LEFT;
    return s("svg", { x: LEFT, y, width, height, viewBox: `${LEFT} ${y} ${width} ${height}` });
  }

  private drawClock(svg: Svg, top: number, bottom: number, text: number): void {
    const [from, to] = this.span;
    const step = clockStep((to - from) / Math.max(2, (this.end - LEFT) / 110));
    for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
      svg.append(s("path", { class: "axis", d: `M${this.x(time)} ${top}V${bottom}` }), s("text", { class: "dim", x: this.x(time), y: text, "text-anchor": "middle" }, clockText(time, step)));
    }
  }

  /** The first line of each event that is free there. */
  private inSlots(marks: MarkView[], width: number): number[] {
    const ends: number[] = [];
    return marks.map((mark) => {
      const x = this.x(mark.time);
      const wide = 14 + textWidth(markText(mark), `${FONT} sans-serif`);
      const isLeft = x + wide > width;
      const begin = isLeft ? x - wide : x - 8;
      let slot = 0;
      while (slot < MOST_SLOTS - 1 && (ends[slot] ?? -1) > begin) slot++;
      ends[slot] = isLeft ? x + 8 : x + wide;
      return slot;
    });
  }

  private drawLines(svg: Svg, marks: MarkView[], slots: number[], bottom: number): void {
    marks.forEach((mark, index) => {
      const hot = mark.kind === "cause" ? " hot" : "";
      svg.append(s("path", { class: `event${hot}`, d: `M${this.x(mark.time)} ${16 + SLOT * slots[index]}V${bottom}` }));
    });
  }

  private drawMark(mark: MarkView, y: number, width: number): Svg {
    const x = this.x(mark.time);
    const text = markText(mark);
    const isLeft = x + 14 + textWidth(text, `${FONT} sans-serif`) > width;
    const shape =
      mark.kind === "cause"
        ? s("path", { class: "fill-hot", d: `M${x} ${y - 6}l6 6l-6 6l-6 -6z` })
        : mark.kind === "follows" || mark.kind === "other"
          ? s("path", { class: "after", d: `M${x} ${y - 5}l5.5 9.5h-11z` })
          : mark.kind === "value"
            ? s("rect", { class: "after", x: x - 4, y: y - 4, width: 8, height: 8 })
            : s("circle", { class: "calm", cx: x, cy: y, r: 4 });
    const group = s("g", { class: "mark-of", "data-ranks": mark.ranks, "aria-label": `${clock(mark.time)} ${mark.text}` }, shape, s("text", { class: mark.kind === "cause" ? "over hot" : "over", x: isLeft ? x - 9 : x + 9, y: y + 4, "text-anchor": isLeft ? "end" : "start" }, text));
    this.explain(group, mark.text, [clock(mark.time), mark.line]);
    this.selectable(group, mark.ranks);
    return group;
  }

  private drawRow(row: PhaseRow, y: number): Svg {
    const group = s("g", { class: row.stalled ? "row hot" : "row", "data-ranks": row.ranks, "aria-label": `${row.name}: ${row.stays.at(-1)?.text ?? ""} ${row.says}`.trim() });
    const count = placesOf(row.ranks).length;
    group.append(s("rect", { class: "whole-row", x: 0, y, width: this.end + RIGHT, height: ROW }), s("text", { class: row.stalled ? "hot" : "", x: LEFT - 10, y: y + 14, "text-anchor": "end" }, fitted(row.name, LEFT - 14)));
    const inside = this.window(y, ROW);
    row.stays.forEach((stay, index) => {
      const [x, end] = [this.x(stay.begin), this.x(stay.end)];
      const next = row.stays[index + 1];
      const until = next ? this.x(next.begin) : end;
      const fill = `fill-${this.fills[stay.phase]}`;
      const wide = Math.max(2, end - x);
      if (until - x - wide > 1) inside.append(s("rect", { class: `${fill} between`, x: x + wide, y: y + 3, width: until - x - wide, height: ROW - 6 }));
      inside.append(s("rect", { class: fill, x, y: y + 3, width: wide, height: ROW - 6 }));
      const seen = Math.min(until, this.end) - Math.max(x, LEFT);
      const wanted = textWidth(stay.text, "11px sans-serif") + 10;
      const isSolid = Math.min(x + wide, this.end) - Math.max(x, LEFT) > wanted && this.fills[stay.phase] !== "a";
      if (seen > wanted) inside.append(s("text", { class: isSolid ? "inside on" : "inside", x: Math.max(x, LEFT) + 5, y: y + 14 }, stay.text));
    });
    const last = row.stays.at(-1);
    if (last && row.silent > 0 && this.x(last.end + row.silent) - this.x(last.end) > 3)
      inside.append(s("rect", { class: row.stalled ? "silent hot" : "silent", x: this.x(last.end) + 2, y: y + 3.5, width: this.x(last.end + row.silent) - this.x(last.end) - 2.5, height: ROW - 7 }));
    group.append(inside, s("text", { class: row.stalled ? "hot" : "dim", x: this.end + 8, y: y + 14 }, fitted(last?.text ?? "", RIGHT - 10)));
    const lines = row.stays.slice(-6).map((stay) => `${clock(stay.begin)}  ${stay.text}${stay.end > stay.begin ? `, ${lasting(stay.end - stay.begin)}` : ""}`);
    this.explain(group, `${row.name}${count > 1 ? ` (${ranksOf(count)})` : ""}`, [...lines, row.says]);
    this.selectable(group, row.ranks);
    return group;
  }

  // ---- the numbers of the steps

  private drawChart(svg: Svg, chart: ChartView, top: number): void {
    const byTime = chart.times.length > 0;
    const [first, last] = [chart.steps[0], chart.steps.at(-1)!];
    const at = byTime ? chart.times.map(this.x) : chart.steps.map((step) => LEFT + ((step - first) / (last - first || 1)) * (this.end - LEFT));
    const seen = at.flatMap((x, index) => (x >= LEFT - 1 && x <= this.end + 1 ? [index] : []));
    const scale = scaleOf(chart, seen.length > 1 ? seen : at.map((_, index) => index));
    const y = (value: number): number => top + CHART - scale.share(value) * CHART;
    svg.append(s("text", { class: "name", x: 0, y: top + 9 }, chart.name), s("text", { class: "dim", x: 0, y: top + 25 }, chart.count > 1 ? `of ${counted(chart.count)} ${chart.of}` : ""));
    for (const tick of scale.ticks) svg.append(s("path", { class: "axis", d: `M${LEFT} ${y(tick)}H${this.end}` }), s("text", { class: "dim", x: LEFT - 10, y: y(tick) + 4, "text-anchor": "end" }, withUnit(tick, chart.unit)));
    const inside = this.window(top - 2, CHART + 4);
    const point = (values: (number | null)[]) => (index: number): string => `${at[index].toFixed(1)} ${y(values[index]!).toFixed(1)}`;
    const all = at.map((_, index) => index);
    if (chart.count > 1 && chart.lines.length !== chart.count) inside.append(s("path", { class: "band", d: `M${all.map(point(chart.low)).join("L")}L${[...all].reverse().map(point(chart.high)).join("L")}Z` }));
    const eachHasALine = chart.lines.length === chart.count;
    const breaks = breaksIn(at);
    if (!eachHasALine) inside.append(s("path", { class: "line", d: pathOf(chart.middle, point(chart.middle), breaks) }));
    const ordered = [...chart.lines].sort((one, other) => Number(one.odd) - Number(other.odd));
    for (const line of ordered) inside.append(s("path", { class: line.odd ? "line odd" : "line", "data-ranks": line.ranks, d: pathOf(line.values, point(line.values), breaks) }));
    svg.append(inside);
    const named: [string, number, boolean][] = chart.lines.filter((line) => line.odd || chart.lines.length <= 2).map((line) => [chart.count > 1 || line.ranks ? line.name : "", line.values.findLast((value) => value !== null) ?? chart.middle.at(-1)!, line.odd]);
    if (!eachHasALine || chart.lines.length > 2) named.push([chart.count > 1 ? "median" : "", chart.middle.at(-1)!, false]);
    apart(named.map(([, value]) => y(value)), top, top + CHART).forEach((place, index) => {
      const [name, value, odd] = named[index];
      svg.append(s("text", { class: odd ? "hot" : "", x: this.end + 8, y: place + 4 }, fitted(`${name} ${withUnit(value, chart.unit)}`.trim(), RIGHT - 10)));
    });
    if (!byTime) {
      svg.append(s("text", { class: "dim", x: LEFT, y: top + CHART + 15 }, `step ${counted(first)}`), s("text", { class: "dim", x: this.end, y: top + CHART + 15, "text-anchor": "end" }, `step ${counted(last)}`));
    }
    const cover = s("rect", { class: "cover", x: LEFT, y: top, width: this.end - LEFT, height: CHART });
    cover.addEventListener("pointermove", (event) => {
      const x = this.pointed(svg, event as PointerEvent);
      const index = nearest(at, x);
      const lines = [byTime ? clock(chart.times[index]) : "", chart.count > 1 ? `median ${withUnit(chart.middle[index]!, chart.unit)}, ${withUnit(chart.low[index]!, chart.unit)} to ${withUnit(chart.high[index]!, chart.unit)}` : withUnit(chart.middle[index]!, chart.unit)];
      const odd = chart.lines.filter((line) => line.odd && line.values[index] !== null).map((line) => `${line.name} ${withUnit(line.values[index]!, chart.unit)}`);
      showTip(event as PointerEvent, `${chart.name}, step ${counted(chart.steps[index])}`, [...lines, ...odd]);
    });
    cover.addEventListener("pointerleave", hideTip);
    svg.append(cover);
  }

  // ---- pointer and keys

  private pointed(svg: Svg, event: PointerEvent): number {
    return event.clientX / zoom() - svg.getBoundingClientRect().left / zoom();
  }

  private explain(element: Element, title: string, lines: string[]): void {
    element.addEventListener("pointermove", (event) => showTip(event as PointerEvent, title, lines));
    element.addEventListener("pointerleave", hideTip);
  }

  private selectable(group: Element, ranks: string): void {
    group.setAttribute("tabindex", "0");
    if (!ranks) {
      group.setAttribute("role", "img");
      return;
    }
    group.setAttribute("role", "button");
    onPick(group, () => {
      if (!this.dragged) this.state.toggle(this.state.mask(ranks));
    });
  }

  /** A drag from left to right shows that time. */
  private listen(svg: Svg, height: number): void {
    if (!this.whole) return;
    let begin = 0;
    svg.addEventListener("pointerdown", (event) => {
      begin = this.pointed(svg, event as PointerEvent);
      if (begin < LEFT || begin > this.end || (event as PointerEvent).button !== 0) begin = 0;
    });
    svg.addEventListener("pointermove", (event) => {
      const x = Math.max(LEFT, Math.min(this.end, this.pointed(svg, event as PointerEvent)));
      if (!begin || !((event as PointerEvent).buttons & 1) || (!this.dragged && Math.abs(x - begin) < LEAST_DRAG)) return;
      if (!this.dragged) {
        svg.append((this.dragged = s("rect", { class: "dragged", y: 0, height })));
        svg.setPointerCapture((event as PointerEvent).pointerId);
      }
      this.dragged.setAttribute("x", String(Math.min(begin, x)));
      this.dragged.setAttribute("width", String(Math.abs(x - begin)));
    });
    svg.addEventListener("pointerup", (event) => {
      if (!this.dragged) return;
      const x = Math.max(LEFT, Math.min(this.end, this.pointed(svg, event as PointerEvent)));
      const [from, to] = this.span;
      const time = (place: number): number => from + ((place - LEFT) / (this.end - LEFT)) * (to - from);
      setTimeout(() => {
        this.dragged = null;
        this.show(time(Math.min(begin, x)), time(Math.max(begin, x)));
      });
    });
  }

  private fade(): void {
    for (const element of this.figure.querySelectorAll("[data-ranks]")) {
      const ranks = (element as SVGElement).dataset.ranks ?? "";
      const isOut = this.state.hasSelection && !!ranks && !placesOf(ranks).some((place) => this.state.selected[place]);
      element.classList.toggle("miss", isOut);
    }
  }
}

/** The phase that took longest is grey; the others have a colour each. */
function fillsOf(times: TimeView): string[] {
  const lengths = times.phases.map(() => 0);
  for (const row of times.rows)
    row.stays.forEach((stay, index) => (lengths[stay.phase] += (row.stays[index + 1]?.begin ?? stay.end) - stay.begin));
  const order = lengths.map((_, index) => index).sort((one, other) => lengths[other] - lengths[one]);
  return lengths.map((_, index) => FILLS[Math.min(order.indexOf(index), FILLS.length - 1)]);
}

const markText = (mark: MarkView): string => shortened(mark.text, 64);

function fitted(text: string, width: number): string {
  if (textWidth(text, `${FONT} sans-serif`) <= width) return text;
  let most = text.length;
  while (most > 4 && textWidth(`${text.slice(0, most)}…`, `${FONT} sans-serif`) > width) most--;
  return `${text.slice(0, most)}…`;
}

/** Places before which so many lines were not kept that the way between is not known. */
function breaksIn(at: number[]): Set<number> {
  const gaps = at.slice(1).map((x, index) => x - at[index]);
  const whole = (at.at(-1) ?? 0) - at[0];
  const usual = Math.max([...gaps].sort((one, other) => one - other)[gaps.length >> 1] ?? 0, whole / (gaps.length || 1) / 2);
  return new Set(gaps.flatMap((gap, index) => (gap > 10 * usual && gap > 0.08 * whole ? [index + 1] : [])));
}

function pathOf(values: (number | null)[], point: (index: number) => string, breaks: Set<number>): string {
  let isApart = true;
  return values
    .map((value, index) => {
      if (breaks.has(index)) isApart = true;
      if (value === null) return "";
      const part = `${isApart ? "M" : "L"}${point(index)}`;
      isApart = false;
      return part;
    })
    .join("");
}

// ---- scales

interface Scale {
  ticks: number[];
  share: (value: number) => number;
}

/** From the least to the greatest value that is seen; by powers of ten where these are far apart. */
function scaleOf(chart: ChartView, seen: number[]): Scale {
  const values = seen.flatMap((index) => [chart.low[index]!, chart.high[index]!]);
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (low > 0 && high / low > 60) {
    const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
    const every = Math.max(1, Math.ceil((last - first) / 3));
    const ticks = [];
    for (let power = first; power <= last; power += every) ticks.push(10 ** power);
    return { ticks, share: (value) => (Math.log10(Math.max(value, 10 ** first)) - first) / (last - first) };
  }
  if (high === low) [low, high] = [low - Math.abs(low) * 0.1 - 0.5, high + Math.abs(high) * 0.1 + 0.5];
  const step = niceStep((high - low) / 3);
  const [first, last] = [Math.floor(low / step) * step, Math.ceil(high / step) * step];
  const ticks = [];
  for (let tick = first; tick <= last + step / 2; tick += step) ticks.push(Number(tick.toPrecision(12)));
  return { ticks, share: (value) => (value - first) / (last - first) };
}

function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 2.5, 5, 10].find((each) => each * power >= least) ?? 10);
}

const STEPS = [0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
const clockStep = (least: number): number => STEPS.find((each) => each >= least) ?? STEPS.at(-1)!;

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

/** As the logs print it: times of the document have no zone. */
export function clock(time: number): string {
  return new Date(time * 1000).toISOString().slice(11, 19);
}

export const day = (time: number): string => DAY.format(new Date(time * 1000));

function clockText(time: number, step: number): string {
  if (step >= 86400 || (step >= 3600 && time % 86400 === 0)) return day(time);
  const text = new Date(time * 1000).toISOString();
  return step >= 60 ? text.slice(11, 16) : text.slice(11, step < 1 ? 21 : 19);
}

function withUnit(value: number, unit: string): string {
  const size = Math.abs(value);
  const text = size >= 1e6 || (size > 0 && size < 1e-3) ? value.toExponential(2) : size >= 1000 ? counted(Math.round(value)) : String(Number(value.toPrecision(4)));
  return unit ? `${text} ${unit}` : text;
}

/** Places of labels, so that none is on another. */
function apart(places: number[], top: number, bottom: number): number[] {
  const order = places.map((_, index) => index).sort((one, other) => places[one] - places[other]);
  const made = [...places];
  order.forEach((index, place) => {
    if (place) made[index] = Math.max(made[index], made[order[place - 1]] + 14);
  });
  const over = order.length ? Math.max(0, made[order.at(-1)!] - bottom) : 0;
  return made.map((each) => Math.max(top, each - over));
}

function nearest(at: number[], x: number): number {
  let best = 0;
  at.forEach((each, index) => {
    if (Math.abs(each - x) < Math.abs(at[best] - x)) best = index;
  });
  return best;
}
