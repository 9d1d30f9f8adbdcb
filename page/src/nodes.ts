// Nodes and GPUs: health beside the ranks. Equal nodes are one row, and what is unusual is on top.

import type { NodeHealth, NodesView } from "./document";
import { counted, h, hideTip, pickable, s, shortened, showTip } from "./dom";
import { choice } from "./grid";
import { figuresOf, SPAN, type Figure, type NodeFigures, type Point } from "./node_history";
import type { PageState } from "./page_state";
import { placesOf, type Mask } from "./sets";

const MOST_ROWS = 48;
const FEW = 4; // nodes that are a row each
const MOST = 100; // of every scale: percent, or °C
const GAP = 30; // seconds without a look: the line breaks
const [WIDE, HIGH] = [32, 16]; // of a bar, and of a sparkline
const KINDS = ["unknown", "complaint", "apart", ""]; // the first ones on top

interface Group {
  nodes: number[];
  health: NodeHealth;
  hasCulprit: boolean;
}

interface Column {
  name: string;
  figure: Figure;
  unit: string;
}

const COLUMNS: Column[] = [
  { name: "GPU use", figure: "use", unit: " %" },
  { name: "GPU memory", figure: "gpuMemory", unit: " %" },
  { name: "GPU °C", figure: "temperature", unit: "°" },
  { name: "CPU load", figure: "load", unit: " %" },
  { name: "memory", figure: "memory", unit: " %" },
  { name: "disk", figure: "disk", unit: " %" },
];

export class Nodes {
  private readonly view: NodesView;
  private readonly figures: NodeFigures;
  private readonly columns: Column[];
  private readonly says = h("p", { class: "says", role: "status" });
  private readonly body = h("tbody");
  private readonly rest = h("p", { class: "dim" });
  private readonly table: HTMLTableElement;
  private readonly troubled: Set<number>;
  private readonly gpusOf: number[][] = [];
  private readonly nodeOfRank: Int32Array;

  constructor(private readonly state: PageState, private readonly tools: HTMLElement) {
    this.view = state.document.nodes!;
    this.figures = figuresOf(this.view);
    this.columns = COLUMNS.filter(({ figure }) => this.figures[figure].some((value) => !Number.isNaN(value)));
    this.troubled = new Set(placesOf(this.view.gpus.troubled));
    this.view.gpus.node.forEach((node, place) => (this.gpusOf[node] ??= []).push(place));
    this.nodeOfRank = new Int32Array(state.ranks.size).fill(-1);
    this.view.ranks.forEach((ranks, node) => { for (const place of placesOf(ranks)) this.nodeOfRank[place] = node; });
    this.table = h("table", { class: "nodes" }, h("thead", {}, this.heads()), this.body);
    this.addTools();
    state.watch(() => this.draw(), this.table);
  }

  get elements(): HTMLElement[] {
    return [this.table, this.rest];
  }

  get saying(): HTMLElement {
    return this.says;
  }

  private get isFolded(): boolean {
    return this.state.chosen.nodes !== "each";
  }

  private addTools(): void {
    if (this.view.hosts.length <= FEW) return;
    this.tools.append(
      choice("nodes", ["folded", "each"], this.isFolded ? 0 : 1, (index) => {
        this.state.choose("nodes", index ? "each" : "");
        this.draw();
      }),
    );
  }

  private heads(): HTMLElement {
    const span = this.state.history.isEmpty ? "" : ", 10 min";
    const names = ["", "node", "ranks", ...this.columns.map(({ name }, index) => (index ? name : `${name}${span}`)), "health"];
    return h("tr", {}, ...names.map((text) => h("th", { scope: "col", class: text ? null : "mark-cell" }, text || h("span", { class: "hidden" }, "mark"))));
  }

  // ---- which rows

  draw(): void {
    const focus = (document.activeElement as HTMLElement | null)?.closest("tr");
    const key = focus && this.body.contains(focus) ? focus.dataset.key : undefined;
    const shown = this.shown();
    const groups = this.groups(shown);
    const rows = groups.slice(0, MOST_ROWS).map((group) => this.row(group));
    this.body.replaceChildren(...rows);
    const left = groups.slice(MOST_ROWS).reduce((sum, group) => sum + group.nodes.length, 0);
    this.rest.textContent = left ? `and ${counted(left)} more nodes: select ranks to see theirs` : "";
    this.rest.hidden = !left;
    this.says.textContent = this.saysOf(shown);
    if (key !== undefined) (rows.find((row) => row.dataset.key === key) ?? rows[0])?.focus({ preventScroll: true });
  }

  /** Those of the selected ranks; without a selection, all. */
  private shown(): number[] {
    const { state, view } = this;
    const all = view.hosts.map((_, node) => node);
    if (!state.hasSelection) return all;
    const some = new Set<number>();
    state.selected.forEach((isIn, place) => { if (isIn) some.add(this.nodeOfRank[place]); });
    return all.filter((node) => some.has(node));
  }

  private groups(shown: number[]): Group[] {
    const folds = this.isFolded && shown.length > FEW;
    const culprits = this.nodesWithCulprits();
    const groups = new Map<string, Group>();
    for (const node of shown) {
      const of = this.view.of[node];
      const hasCulprit = culprits.has(node);
      const key = folds ? `${of} ${hasCulprit} ${this.gpusOf[node]?.length ?? 0}` : String(node);
      const group = groups.get(key);
      if (group) group.nodes.push(node);
      else groups.set(key, { nodes: [node], health: this.view.health[of], hasCulprit });
    }
    return [...groups.values()].sort((a, b) => rank(a) - rank(b) || a.nodes.length - b.nodes.length || a.nodes[0] - b.nodes[0]);
  }

  private nodesWithCulprits(): Set<number> {
    if (!this.state.culpritsStandOut) return new Set();
    return new Set(placesOf(this.state.document.verdict.culprits).map((place) => this.nodeOfRank[place]));
  }

  private saysOf(shown: number[]): string {
    const well = shown.filter((node) => !this.view.health[this.view.of[node]].kind).length;
    const of = `${counted(shown.length)} ${shown.length === 1 ? "node" : "nodes"}`;
    const healthy = well === shown.length ? `${of}, healthy` : `${counted(well)} of ${of} healthy`;
    const whose = shown.length < this.view.hosts.length ? `of the selected ranks: ${healthy}` : healthy;
    const gpus = shown.reduce((sum, node) => sum + (this.gpusOf[node]?.length ?? 0), 0);
    return [whose, gpus ? `${counted(gpus)} × ${this.view.gpus.names.join(", ") || "GPU"}` : ""].filter(Boolean).join("; ");
  }

  // ---- a row

  private row(group: Group): HTMLTableRowElement {
    const { nodes } = group;
    const mask = this.ranksOn(nodes);
    const count = mask.reduce((sum, each) => sum + each, 0);
    const hosts = new Set(nodes.map((node) => this.view.hosts[node]));
    const name = nodes.length === 1 ? this.view.hosts[nodes[0]] : `${counted(nodes.length)} nodes`;
    const row = h(
      "tr",
      { class: count ? "pick" : null, "data-key": this.view.hosts[nodes[0]] },
      h("td", { class: "mark-cell" }, mark(group)),
      h("td", { class: "clip name" }, h("b", {}, name)),
      h("td", { class: "clip whose" }, count ? h("code", {}, shortened(this.state.ranks.text(mask), 22)) : h("span", { class: "dim" }, "none")),
      ...this.columns.map((column) => this.cell(column, nodes, hosts)),
      h("td", { class: "health" }, ...this.health(group)),
    );
    if (count) pickable(row, () => this.state.toggle(mask));
    row.classList.toggle("on", count > 0 && this.state.isSelected(mask));
    row.addEventListener("pointermove", (event) => showTip(event, name, this.about(nodes)));
    row.addEventListener("pointerleave", hideTip);
    return row;
  }

  private ranksOn(nodes: number[]): Mask {
    const mask = new Uint8Array(this.state.ranks.size);
    for (const node of nodes) for (const place of placesOf(this.view.ranks[node])) mask[place] = 1;
    return mask;
  }

  private health({ health, hasCulprit }: Group): (HTMLElement | string | null)[] {
    const more = health.more ? h("span", { class: "dim" }, ` and ${counted(health.more)} more`) : null;
    const { mark: called } = this.state.document.verdict;
    const culprit = hasCulprit ? h("b", { class: "hot whole" }, ` ← ${called === "culprits" ? "culprit" : called} here`) : null;
    if (!health.kind) return [h("span", { class: "dim" }, health.text), culprit];
    return [h("b", {}, health.text), more, culprit, health.next ? h("span", { class: "more" }, health.next) : null];
  }

  /** A bar for each GPU; of several nodes, the mean of each number. */
  private bars(nodes: number[]): SVGElement | null {
    const { gpus } = this.view;
    const byIndex = new Map<number, { values: number[]; isTroubled: boolean }>();
    for (const node of nodes)
      for (const place of this.gpusOf[node] ?? []) {
        const found = byIndex.get(gpus.index[place]) ?? { values: [], isTroubled: false };
        if (gpus.use[place] !== null) found.values.push(gpus.use[place]!);
        found.isTroubled ||= this.troubled.has(place);
        byIndex.set(gpus.index[place], found);
      }
    const each = [...byIndex].sort(([a], [b]) => a - b).slice(0, 16);
    if (!each.length) return null;
    const told = each.map(([index, { values, isTroubled }]) => `GPU ${index}: ${values.length ? `${mean(values).toFixed(0)} %` : "not known"}${isTroubled ? ", with a complaint" : ""}`);
    const svg = s("svg", { class: "bars-of-gpus", width: each.length * 8, height: 24, viewBox: `0 0 ${each.length * 8} 24`, role: "img", "aria-label": told.join(", ") });
    each.forEach(([, { values, isTroubled }], index) => {
      const full = values.length ? (14 * mean(values)) / 100 : 0;
      const x = 8 * index;
      svg.append(s("rect", { class: values.length ? "track" : "track empty", x: x + 0.5, y: 5, width: 5, height: 14 }));
      if (full) svg.append(s("rect", { class: isTroubled ? "fill-warn" : "fill", x: x + 0.5, y: 19 - full, width: 5, height: full }));
      if (isTroubled) svg.append(s("path", { class: "trouble", d: `M${x + 3} 20L${x + 6.3} 24H${x - 0.3}Z` }));
    });
    return svg;
  }

  private cell(column: Column, nodes: number[], hosts: Set<string>): HTMLElement {
    const each = column.figure === "use" ? this.bars(nodes) : null;
    const values = nodes.map((node) => this.figures[column.figure][node]).filter((value) => !Number.isNaN(value));
    if (!values.length) return h("td", { class: "figure" }, h("span", { class: "dim" }, "–"));
    const points = this.state.history.of(hosts, column.figure);
    const picture = points.length > 1 ? sparkline(points, this.state.history.end) : bar(values);
    return h("td", { class: "figure" }, h("span", {}, each, each && points.length < 2 ? null : picture, h("span", { class: "value" }, ranged(values, column.unit))));
  }

  private about(nodes: number[]): string[] {
    const { view } = this;
    if (nodes.length > 1) return [shortened(nodes.map((node) => view.hosts[node]).join(", "), 200)];
    const [node] = nodes;
    const { gpus } = view;
    const lines = (this.gpusOf[node] ?? []).slice(0, 16).map((place) => {
      const parts = [percent(gpus.use[place], "use"), percent(gpus.memory[place], "memory"), gpus.temperature[place] === null ? "" : `${gpus.temperature[place]} °C`];
      return `${this.troubled.has(place) ? "▲ " : ""}GPU ${gpus.index[place]}: ${parts.filter(Boolean).join(", ") || "not known"}`;
    });
    if (view.load[node] !== null) lines.push(`load: ${view.load[node]} % of ${counted(view.processors[node])} processors`);
    if (view.memory[node] !== null) lines.push(`memory: ${view.memory[node]} % of ${gib(view.memory_size[node])}`);
    if (view.disk[node] !== null) lines.push(`${view.disks[view.fullest[node]]}: ${view.disk[node]} % full`);
    return lines;
  }
}

/** What is unusual first, then the culprit's. */
const rank = (group: Group): number => 2 * KINDS.indexOf(group.health.kind) - Number(group.hasCulprit);

const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
const percent = (value: number | null, of: string): string => (value === null ? "" : `${value} % ${of}`);
const gib = (bytes: number): string => `${counted(Math.round(bytes / 2 ** 30))} GiB`;

function ranged(values: number[], unit: string): string {
  const [low, high] = [Math.min(...values).toFixed(0), Math.max(...values).toFixed(0)];
  return low === high ? `${low}${unit}` : `${low}-${high}${unit}`;
}

/** Shape and text say what the colour says: a diamond, a triangle, a hollow square, a dot. */
function mark({ health, hasCulprit }: Group): SVGSVGElement {
  const shape = hasCulprit
    ? s("path", { class: "fill-hot", d: "M8 1.5L14.5 8L8 14.5L1.5 8Z" })
    : health.kind === "complaint"
      ? s("path", { class: "fill-warn", d: "M8 2L14.5 13.5H1.5Z" })
      : health.kind === "unknown"
        ? s("rect", { class: "hollow", x: 3, y: 3, width: 10, height: 10 })
        : health.kind === "apart"
          ? s("path", { class: "fill-warn", d: "M8 2.5L13.5 8L8 13.5L2.5 8Z" })
          : s("circle", { class: "calm", cx: 8, cy: 8, r: 3 });
  return s("svg", { width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true" }, shape);
}

/** From the least to the most of the nodes in a lighter colour. */
function bar(values: number[]): SVGSVGElement {
  const at = (value: number): number => (WIDE * Math.min(value, MOST)) / MOST;
  const [low, high] = [at(Math.min(...values)), at(Math.max(...values))];
  return s(
    "svg",
    { class: "level", width: WIDE, height: HIGH, viewBox: `0 0 ${WIDE} ${HIGH}`, "aria-hidden": "true" },
    s("rect", { class: "track", x: 0, y: 5, width: WIDE, height: 6 }),
    s("rect", { class: "range", x: 0, y: 5, width: high, height: 6 }),
    s("rect", { class: "fill", x: 0, y: 5, width: low, height: 6 }),
  );
}

/** Ten minutes, of which the last is at the right; where it was not looked at, nothing. */
function sparkline(points: Point[], end: number): SVGSVGElement {
  const x = (at: number): string => (WIDE - ((end - at) / SPAN) * WIDE).toFixed(1);
  const y = (value: number): string => (HIGH - 1 - (Math.min(value, MOST) / MOST) * (HIGH - 3)).toFixed(1);
  const runs: Point[][] = [];
  points.forEach((point, index) => {
    if (index && point.at - points[index - 1].at <= GAP) runs.at(-1)!.push(point);
    else runs.push([point]);
  });
  const svg = s("svg", { class: "spark", width: WIDE, height: HIGH, viewBox: `0 0 ${WIDE} ${HIGH}`, "aria-hidden": "true" }, s("path", { class: "base", d: `M0 ${HIGH - 0.5}H${WIDE}` }));
  for (const run of runs) {
    const line = run.map(({ at, middle }) => `${x(at)} ${y(middle)}`).join("L");
    const under = run.map(({ at, low }) => `${x(at)} ${y(low)}`).reverse().join("L");
    const over = run.map(({ at, high }) => `${x(at)} ${y(high)}`).join("L");
    svg.append(s("path", { class: "range", d: `M${over}L${under}Z` }), s("path", { class: "line", d: `M${line}` }));
  }
  const last = points.at(-1)!;
  svg.append(s("circle", { class: "now", cx: x(last.at), cy: y(last.middle), r: 1.5 }));
  return svg;
}
