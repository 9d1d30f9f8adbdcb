// The rank grid: a cell for each rank on a canvas, so that ten thousand of them stay fluid.

import { counted, h, hideTip, pickable, ranksOf, s, showTip, shortened, zoom } from "./dom";
import { BAND, layoutsOf, placed, type Layout, type Placed } from "./layouts";
import type { Fill, PageState } from "./page_state";
import { isSame, placesOf, type Mask } from "./sets";

const MOST_ROWS = 12;
const MOST_DIAMONDS = 64;
const SHAPES_FROM = 10; // pixels of a cell

interface LegendRow {
  fill: Fill;
  mask: Mask;
  row: HTMLTableRowElement;
}

export class Grid {
  private readonly canvas = h("canvas", {
    tabindex: 0,
    role: "application",
    "aria-roledescription": "rank grid",
    "aria-label": "Rank grid. Arrow keys move, Space selects, Shift with arrows selects more.",
  });
  private readonly legend = h("table", { class: "legend" });
  private readonly spoken = h("div", { class: "hidden", "aria-live": "polite" });
  private readonly probe = h("span", { class: "hidden" });
  private readonly layouts: Layout[];
  private readonly byPlace = new Map<number, number>();
  private rows: LegendRow[] = [];
  private placed!: Placed;
  private cursor = -1;
  private isFocused = false;
  private drag: { x: number; y: number; place: number; add: boolean; band?: [number, number, number, number] } | null = null;
  private queued = false;

  constructor(private readonly state: PageState, private readonly tools: HTMLElement) {
    this.layouts = layoutsOf(state.ranks);
    const cursor = Number(state.kept.get("cursor") ?? -1);
    if (cursor < state.ranks.size) this.cursor = cursor;
    this.listen();
    state.watch(() => {
      this.redraw();
      this.paintLegend();
    }, this.canvas);
    this.addTools();
  }

  get elements(): HTMLElement[] {
    return [h("div", { class: "grid" }, this.canvas), this.legend, this.spoken, this.probe];
  }

  /** Culprits that are drawn as diamonds. */
  private get marked(): number[] {
    return this.state.culpritsStandOut && this.state.culpritCount <= MOST_DIAMONDS ? placesOf(this.state.document.verdict.culprits) : [];
  }

  // ---- choices

  private addTools(): void {
    const { document, ranks } = this.state;
    if (!ranks.size) return;
    if (document.colourings.length > 1) this.tools.append(
      choice("colour", document.colourings.map((each) => each.name), this.state.colouring, (index) => {
        this.state.colouring = index;
        this.state.writeAddress();
        this.draw();
      }),
    );
    const chosen = Math.max(0, this.layouts.findIndex((each) => each.name === this.state.chosen.layout));
    if (this.layouts.length > 1)
      this.tools.append(
        choice("layout", this.layouts.map((each) => each.name), chosen, (index) => {
          this.state.choose("layout", index ? this.layouts[index].name : "");
          this.draw();
        }),
      );
  }

  // ---- drawing

  draw(): void {
    const width = this.canvas.parentElement!.clientWidth;
    const layout = this.layouts.find((each) => each.name === this.state.chosen.layout) ?? this.layouts[0];
    this.placed = placed(layout, width, this.state.ranks.size);
    this.byPlace.clear();
    for (let place = 0; place < this.state.ranks.size; place++)
      this.byPlace.set(this.key(this.placed.at[2 * place], this.placed.at[2 * place + 1]), place);
    const scale = devicePixelRatio * zoom();
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(this.placed.height * scale);
    this.canvas.style.height = `${this.placed.height}px`;
    this.canvas.dataset.cell = String(this.placed.cell);
    this.paint();
    this.drawLegend();
  }

  private key = (x: number, y: number): number => Math.round(y) * 100_000 + Math.round(x);

  private redraw(): void {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      this.paint();
    });
  }

  private paint(): void {
    const { state, placed: layout } = this;
    const context = this.canvas.getContext("2d")!;
    const scale = this.canvas.width / Math.max(1, this.canvas.parentElement!.clientWidth);
    const style = getComputedStyle(document.documentElement);
    const colour = this.colours();
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.paintNames(context, colour, style);
    const inner = layout.cell - (layout.cell > 10 ? 2 : layout.cell > 5 ? 1 : 0.75);
    const fills = state.fills[state.colouring];
    const column = state.classOf[state.colouring];
    // By class: to change the colour of the brush for each cell takes longer than to draw it.
    const batches: number[][] = [];
    for (let place = 0; place < state.ranks.size; place++) {
      const faded = state.hasSelection && !state.selected[place] ? 1 : 0;
      (batches[2 * (column[place] + 1) + faded] ??= []).push(place);
    }
    const isMarked = this.marked.length > 0;
    for (const [key, places] of batches.entries()) {
      if (!places) continue;
      const fill = key < 2 ? "none" : fills[(key >> 1) - 1];
      context.globalAlpha = key & 1 ? 0.3 : 1;
      context.fillStyle = colour(fill === "none" ? "line" : fill === "hot" ? "hot-fill" : `group-${fill}`);
      for (const place of places)
        if (!(isMarked && state.culprits[place])) context.fillRect(layout.at[2 * place] + 0.5, layout.at[2 * place + 1] + 0.5, inner, inner);
      if (layout.cell >= SHAPES_FROM) this.paintShapes(context, fill, places, colour("mark"));
    }
    context.globalAlpha = 1;
    this.paintOutside(context, colour("ink-3"), inner);
    if (state.hasSelection) this.paintOutline(context, colour("focus"));
    for (const place of this.marked) this.paintDiamond(context, place, colour);
    this.paintCursor(context, colour("ink"));
    if (this.drag?.band) {
      const [x0, y0, x1, y1] = this.drag.band;
      context.strokeStyle = colour("focus");
      context.fillStyle = colour("focus");
      context.lineWidth = 1;
      context.strokeRect(x0, y0, x1 - x0, y1 - y0);
      context.globalAlpha = 0.12;
      context.fillRect(x0, y0, x1 - x0, y1 - y0);
      context.globalAlpha = 1;
    }
  }

  /** As numbers: a canvas knows neither variables nor light-dark(). */
  private colours(): (name: string) => string {
    const known = new Map<string, string>();
    return (name) => {
      let found = known.get(name);
      if (found === undefined) {
        this.probe.style.color = `var(--${name})`;
        known.set(name, (found = getComputedStyle(this.probe).color));
      }
      return found;
    };
  }

  private paintNames(context: CanvasRenderingContext2D, colour: (name: string) => string, style: CSSStyleDeclaration): void {
    const { cell, axes, panels } = this.placed;
    const sans = style.getPropertyValue("--sans");
    for (const panel of panels) {
      const hot = this.marked.map((place) => [...panel.cells].find(([, other]) => other === place)?.[0]).filter((key) => key !== undefined);
      const bandHeight = panel.down.length * cell;
      context.font = `600 11px ${sans}`;
      context.fillStyle = colour("ink");
      context.textAlign = "left";
      if (panel.title) context.fillText(shortened(panel.title, 40), panel.x, panel.y - 7);
      if (hot.length && hot.length <= 3) {
        const names = hot.map((key) => this.state.ranks.name(panel.cells.get(key)!)).join(", ");
        context.fillStyle = colour("hot");
        context.textAlign = "right";
        const [left, right] = [panel.x + context.measureText(panel.title).width + 16, panel.x + panel.perBand * cell];
        const text = `◆ ${names}`;
        const wide = context.measureText(text).width;
        if (right - wide > left || !panel.title) context.fillText(text, Math.max(right, panel.x + wide), panel.y - 7);
      }
      context.font = `11px ${sans}`;
      const hotRows = new Set(hot.map((key) => Math.floor(key / panel.across.length)));
      const hotColumns = new Set(hot.map((key) => key % panel.across.length));
      context.textAlign = "right";
      for (let band = 0; band < panel.rowsOf; band++) {
        const top = panel.y + band * (bandHeight + BAND);
        const rows = new Set([0, panel.down.length - 1, ...(hotRows.size <= 6 ? hotRows : [])]);
        const ordered = [...rows].sort((a, b) => Number(hotRows.has(b)) - Number(hotRows.has(a)) || a - b);
        const taken: number[] = [];
        for (const row of ordered) {
          const y = top + (row + 0.5) * cell + 4;
          if (taken.some((other) => Math.abs(other - y) < 12)) continue;
          taken.push(y);
          context.fillStyle = colour(hotRows.has(row) ? "hot" : "ink-3");
          const name = panel.down[row];
          context.fillText(row === 0 && name && axes[1].length < 4 ? `${axes[1]} ${name}` : shortened(name, 18), panel.x - 6, y);
        }
        const first = band * panel.perBand;
        const end = Math.min(first + panel.perBand, panel.across.length) - 1;
        const y = top + bandHeight + 13;
        const columns = [...new Set([first, end, ...(hotColumns.size <= 6 ? hotColumns : [])])].filter((column) => column >= first && column <= end);
        const right: [number, number][] = [];
        for (const column of columns.sort((a, b) => Number(hotColumns.has(b)) - Number(hotColumns.has(a)) || a - b)) {
          const name = column === 0 && panel.down[0] && axes[0].length < 4 ? `${axes[0]} ${panel.across[column]}` : panel.across[column];
          const text = shortened(name, 28);
          const wide = context.measureText(text).width;
          const middle = panel.x + (column - first + 0.5) * cell;
          const start = column === first ? panel.x : column === end && column - first > 2 ? Math.min(middle - wide / 2, panel.x + (end - first + 1) * cell - wide) : middle - wide / 2;
          if (right.some(([from, to]) => start < to + 6 && start + wide > from - 6)) continue;
          right.push([start, start + wide]);
          context.textAlign = "left";
          context.fillStyle = colour(hotColumns.has(column) ? "hot" : "ink-3");
          context.fillText(text, start, y);
          context.textAlign = "right";
        }
      }
    }
  }

  /** Shapes inside of cells tell classes apart where colours do not. */
  private paintShapes(context: CanvasRenderingContext2D, fill: string, places: number[], colour: string): void {
    if (fill === "a" || fill === "hot") return;
    const { at, cell } = this.placed;
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = 1.25;
    context.beginPath();
    for (const place of places) shape(context, fill, at[2 * place] + 0.5 + (cell - 2) / 2, at[2 * place + 1] + 0.5 + (cell - 2) / 2, cell - 2);
    if (fill === "d") context.fill();
    else context.stroke();
  }

  private paintOutside(context: CanvasRenderingContext2D, colour: string, inner: number): void {
    const { outside } = this.state.ranks;
    if (this.placed.cell < 5) return;
    context.strokeStyle = colour;
    context.lineWidth = 1;
    context.setLineDash([2, 1.5]);
    for (let place = 0; place < outside.length; place++)
      if (outside[place] && !this.state.culprits[place]) context.strokeRect(this.placed.at[2 * place] + 1.5, this.placed.at[2 * place + 1] + 1.5, inner - 2, inner - 2);
    context.setLineDash([]);
  }

  /** One line around each connected part of the selection. */
  private paintOutline(context: CanvasRenderingContext2D, colour: string): void {
    const { at, cell } = this.placed;
    const isIn = (x: number, y: number): boolean => {
      const place = this.byPlace.get(this.key(x, y));
      return place !== undefined && this.state.selected[place] === 1;
    };
    context.strokeStyle = colour;
    context.lineWidth = cell < 6 ? 1 : 2;
    context.lineCap = "square";
    context.beginPath();
    for (let place = 0; place < this.state.ranks.size; place++) {
      if (!this.state.selected[place]) continue;
      const [x, y] = [at[2 * place], at[2 * place + 1]];
      const [left, top, right, bottom] = [x - 0.5, y - 0.5, x + cell - 0.5, y + cell - 0.5];
      if (!isIn(x - cell, y)) context.moveTo(left, top), context.lineTo(left, bottom);
      if (!isIn(x + cell, y)) context.moveTo(right, top), context.lineTo(right, bottom);
      if (!isIn(x, y - cell)) context.moveTo(left, top), context.lineTo(right, top);
      if (!isIn(x, y + cell)) context.moveTo(left, bottom), context.lineTo(right, bottom);
    }
    context.stroke();
  }

  /** The culprit: larger than its cell, with a halo. */
  private paintDiamond(context: CanvasRenderingContext2D, place: number, colour: (name: string) => string): void {
    const { at, cell } = this.placed;
    const middle = (cell - (cell > 10 ? 2 : 1)) / 2 + 0.5;
    const radius = Math.max(6.5, Math.min(cell * 0.6, 12.5));
    context.fillStyle = colour("page");
    diamond(context, at[2 * place] + middle, at[2 * place + 1] + middle, radius + 2.5);
    context.fillStyle = colour("hot-fill");
    diamond(context, at[2 * place] + middle, at[2 * place + 1] + middle, radius);
  }

  private paintCursor(context: CanvasRenderingContext2D, colour: string): void {
    if (this.cursor < 0 || !this.isFocused) return;
    const { at, cell } = this.placed;
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.strokeRect(at[2 * this.cursor] - 0.5, at[2 * this.cursor + 1] - 0.5, cell, cell);
  }

  // ---- pointer and keys

  private position(event: MouseEvent): [number, number] {
    const box = this.canvas.getBoundingClientRect();
    const scale = this.canvas.clientWidth / Math.max(1, box.width);
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  private placeAt(x: number, y: number): number {
    const { cell } = this.placed;
    for (const panel of this.placed.panels) {
      const band = panel.down.length * cell + BAND;
      const column = Math.floor((x - panel.x) / cell);
      const strip = Math.floor((y - panel.y) / band);
      const row = Math.floor((y - panel.y - strip * band) / cell);
      if (column < 0 || column >= panel.perBand || strip < 0 || strip >= panel.rowsOf || row < 0 || row >= panel.down.length) continue;
      const place = panel.cells.get(strip * panel.perBand + column + row * panel.across.length);
      if (place !== undefined && strip * panel.perBand + column < panel.across.length) return place;
    }
    return -1;
  }

  private listen(): void {
    const { canvas, state } = this;
    canvas.addEventListener("pointerdown", (event) => {
      const [x, y] = this.position(event);
      this.drag = { x, y, place: this.placeAt(x, y), add: event.shiftKey || event.ctrlKey || event.metaKey };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = this.position(event);
      if (this.drag && (this.drag.band || Math.abs(x - this.drag.x) + Math.abs(y - this.drag.y) > 5)) return this.dragTo(x, y);
      const place = this.placeAt(x, y);
      if (place < 0) hideTip();
      else showTip(event, state.ranks.name(place), this.about(place));
    });
    canvas.addEventListener("pointerup", () => {
      const drag = this.drag;
      this.drag = null;
      if (!drag) return;
      if (drag.band) return this.redraw();
      if (drag.place < 0) return state.clear();
      this.moveCursor(drag.place);
      const only = state.mask(String(drag.place));
      if (!drag.add) return state.toggle(only);
      const mask = state.selected.slice();
      mask[drag.place] ^= 1;
      state.select(mask);
    });
    canvas.addEventListener("pointercancel", () => { this.drag = null; this.redraw(); });
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("keydown", (event) => this.onKey(event));
    canvas.addEventListener("focus", () => { this.isFocused = canvas.matches(":focus-visible"); this.redraw(); });
    canvas.addEventListener("blur", () => { this.isFocused = false; this.redraw(); });
  }

  private dragTo(x: number, y: number): void {
    const drag = this.drag!;
    const { at, cell } = this.placed;
    drag.band = [Math.min(x, drag.x), Math.min(y, drag.y), Math.max(x, drag.x), Math.max(y, drag.y)];
    const [x0, y0, x1, y1] = drag.band;
    const mask = new Uint8Array(this.state.ranks.size);
    for (let place = 0; place < mask.length; place++)
      if (at[2 * place] + cell > x0 && at[2 * place] < x1 && at[2 * place + 1] + cell > y0 && at[2 * place + 1] < y1) mask[place] = 1;
    hideTip();
    if (!isSame(mask, this.state.selected)) this.state.select(mask);
    else this.redraw();
  }

  private onKey(event: KeyboardEvent): void {
    const step = ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] } as Record<string, number[]>)[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || !this.state.ranks.size) return;
    this.isFocused = true;
    if (this.cursor < 0) this.cursor = placesOf(this.state.document.verdict.culprits)[0] ?? 0;
    if (step) {
      this.moveCursor(this.nearest(step[0], step[1]));
      if (event.shiftKey) {
        const mask = this.state.selected.slice();
        mask[this.cursor] = 1;
        this.state.select(mask);
      }
    } else if (event.key === " " || event.key === "Enter") this.state.toggle(this.state.mask(String(this.cursor)));
    else return;
    event.preventDefault();
    this.spoken.textContent = [this.state.ranks.name(this.cursor), ...this.about(this.cursor)].filter(Boolean).join(", ");
    this.redraw();
  }

  private moveCursor(place: number): void {
    this.cursor = place;
    this.state.kept.set("cursor", String(place));
  }

  /** The next cell in a direction, over gaps between panels. */
  private nearest(dx: number, dy: number): number {
    const { at } = this.placed;
    const [x, y] = [at[2 * this.cursor], at[2 * this.cursor + 1]];
    let [best, distance] = [this.cursor, Infinity];
    for (let place = 0; place < this.state.ranks.size; place++) {
      const [across, down] = [at[2 * place] - x, at[2 * place + 1] - y];
      const along = across * dx + down * dy;
      const aside = Math.abs(across * dy) + Math.abs(down * dx);
      if (along <= 0.5 || aside > along) continue;
      if (along + 4 * aside < distance) [best, distance] = [place, along + 4 * aside];
    }
    return best;
  }

  private about(place: number): string[] {
    const { state } = this;
    const stacks = state.document.colourings[0];
    const states = state.document.colourings[1];
    const group = stacks?.classes[state.classOf[0][place]];
    const now = states?.classes[state.classOf[1]?.[place]];
    return [
      [state.ranks.coordinates(place), state.ranks.process(place)].filter(Boolean).join(" · "),
      group ? `${group.text} ${group.at}`.trim() : "",
      group?.says ?? "",
      now ? now.text : "",
      state.ranks.note(place),
    ].map((text) => shortened(text, 90));
  }

  // ---- the legend

  private drawLegend(): void {
    const { state } = this;
    const colouring = state.document.colourings[state.colouring];
    const fills = state.fills[state.colouring];
    // The culprit's row is last: what stands out is read last and remembered.
    const order = colouring.classes.map((_, index) => index).sort((a, b) => Number(fills[a] === "hot") - Number(fills[b] === "hot") || a - b);
    const hot = order.filter((index) => fills[index] === "hot");
    const shown = [...order.filter((index) => fills[index] !== "hot").slice(0, MOST_ROWS - Math.min(hot.length, 4)), ...hot.slice(0, 4)];
    this.rows = shown.map((index) => this.legendRow(index, fills[index]));
    const left = order.length - shown.length;
    const rest = left ? [h("tr", {}, h("td", {}), h("td", {}), h("td", { class: "dim", colspan: 3 }, `and ${counted(left)} more groups, ${fewest(order, shown, colouring.classes)} each`))] : [];
    const heads = ["", "ranks", colouring.columns[0], colouring.columns[1], "which"];
    this.legend.replaceChildren(
      h("thead", {}, h("tr", {}, ...heads.map((text, index) => (index && !text ? h("td") : h("th", { class: index === 1 ? "number" : null, scope: "col" }, text || h("span", { class: "hidden" }, "mark")))))),
      h("tbody", {}, ...this.rows.map((each) => each.row), ...rest),
    );
    this.paintLegend();
  }

  private legendRow(index: number, fill: Fill): LegendRow {
    const { state } = this;
    const each = state.document.colourings[state.colouring].classes[index];
    const mask = state.mask(each.ranks);
    const places = placesOf(each.ranks);
    const mark = each.odd ? "odd one out" : places.length === 1 ? "alone here" : state.document.verdict.mark;
    const alone = fill === "hot" ? h("b", { class: "hot whole" }, ` ← ${mark}`) : null;
    const row = h(
      "tr",
      { class: "pick" },
      h("td", {}, swatch(fill)),
      h("td", { class: "number" }, counted(places.length)),
      h("td", { class: "clip" }, each.code ? h("code", {}, each.text) : each.text, " ", h("span", { class: "dim" }, each.at)),
      h("td", { class: "says" }, each.says, alone),
      h("td", { class: "clip" }, h("code", { title: shortened(state.ranks.text(mask), 400) }, shortened(state.ranks.text(mask), 46))),
    );
    pickable(row, () => state.toggle(mask));
    return { fill, mask, row };
  }

  private paintLegend(): void {
    for (const { mask, row } of this.rows) row.classList.toggle("on", this.state.isSelected(mask));
  }
}

function fewest(order: number[], shown: number[], classes: { ranks: string }[]): string {
  const sizes = order.filter((index) => !shown.includes(index)).map((index) => placesOf(classes[index].ranks).length);
  const [low, high] = [Math.min(...sizes), Math.max(...sizes)];
  return low === high ? ranksOf(low) : `${counted(low)}-${counted(high)} ranks`;
}

function diamond(context: CanvasRenderingContext2D, x: number, y: number, radius: number): void {
  context.beginPath();
  context.moveTo(x, y - radius);
  context.lineTo(x + radius, y);
  context.lineTo(x, y + radius);
  context.lineTo(x - radius, y);
  context.fill();
}

function shape(context: CanvasRenderingContext2D, fill: string, x: number, y: number, size: number): void {
  const arm = size * 0.26;
  if (fill === "b") context.moveTo(x - arm, y), context.lineTo(x + arm, y);
  else if (fill === "c") context.moveTo(x, y - arm), context.lineTo(x, y + arm);
  else if (fill === "d") context.moveTo(x + size * 0.13, y), context.arc(x, y, Math.max(1.4, size * 0.13), 0, 7);
  else if (fill === "e") context.moveTo(x + arm * 0.9, y), context.arc(x, y, arm * 0.9, 0, 7);
  else context.moveTo(x - arm, y - arm), context.lineTo(x + arm, y + arm), context.moveTo(x + arm, y - arm), context.lineTo(x - arm, y + arm);
}

const SWATCHES: Record<string, string> = {
  b: "M4 8h8",
  c: "M8 4v8",
  d: "M8 6.3a1.7 1.7 0 1 0 .01 0z",
  e: "M8 4.8a3.2 3.2 0 1 0 .01 0z",
  f: "M5 5l6 6M11 5l-6 6",
};

export function swatch(fill: Fill): SVGSVGElement {
  const mark = SWATCHES[fill];
  return s(
    "svg",
    { width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true", class: `swatch fill-${fill}` },
    fill === "hot" ? s("path", { d: "M8 .5L15.5 8L8 15.5L.5 8Z" }) : s("rect", { x: 1, y: 1, width: 14, height: 14 }),
    mark ? s("path", { d: mark, class: fill === "d" ? "dot" : "line" }) : null,
  );
}

/** A few buttons of which one is on. */
export function choice(name: string, options: string[], chosen: number, pick: (index: number) => void): HTMLElement {
  if (options.length > 4) return dropdown(name, options, chosen, pick);
  const field = h("fieldset", { class: "choice" }, h("legend", {}, name));
  options.forEach((text, index) => {
    const input = h("input", { type: "radio", name, checked: index === chosen });
    input.addEventListener("change", () => pick(index));
    field.append(h("label", {}, input, h("span", {}, text)));
  });
  return field;
}

function dropdown(name: string, options: string[], chosen: number, pick: (index: number) => void): HTMLElement {
  const select = h("select", { class: "field" }, ...options.map((text, index) => h("option", { value: index, selected: index === chosen }, text)));
  select.addEventListener("change", () => pick(select.selectedIndex));
  return h("label", { class: "choice" }, h("span", { class: "name" }, name), select);
}
