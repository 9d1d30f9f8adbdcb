// Where the cell of each rank is: by two dimensions of the mesh, or by node and local rank.

import type { Ranks } from "./ranks";

export interface Panel {
  title: string;
  across: string[]; // what the columns are called
  down: string[];
  cells: Map<number, number>; // column + row * columns -> rank
  x: number;
  y: number;
  rowsOf: number; // bands, one below the other, where the columns do not fit
  perBand: number;
}

export interface Layout {
  name: string;
  axes: [string, string];
  panels: Panel[];
}

export interface Placed extends Layout {
  cell: number;
  label: number; // room for names of rows
  height: number;
  at: Float64Array; // x and y of each rank
}

const HEADER = 20;
const FOOTER = 18;
const GAP = 26;
export const BAND = 20; // below each band, with the names of its columns
const TALLEST = 420;
const LARGEST = 24;
const SMALLEST = 3;

export function layoutsOf(ranks: Ranks): Layout[] {
  const { dimensions } = ranks.columns;
  const wide = dimensions.map((_, index) => index).filter((index) => ranks.extent(index).length > 1);
  const found: Layout[] = [];
  const byLength = [...wide].sort((a, b) => ranks.extent(b).length - ranks.extent(a).length || a - b);
  for (const across of byLength)
    for (const down of [...wide].reverse())
      if (across !== down && !found.some((each) => each.axes.includes(dimensions[across]) && each.axes.includes(dimensions[down])))
        found.push(byMesh(ranks, across, down));
  return [...found.slice(0, 6), byNode(ranks)];
}

function panel(title: string, across: string[], down: string[]): Panel {
  return { title, across, down, cells: new Map(), x: 0, y: 0, rowsOf: 1, perBand: across.length };
}

function byMesh(ranks: Ranks, across: number, down: number): Layout {
  const { dimensions, coordinates, roles } = ranks.columns;
  const [columns, rows] = [ranks.extent(across), ranks.extent(down)];
  const columnOf = new Map(columns.map((value, index) => [value, index]));
  const rowOf = new Map(rows.map((value, index) => [value, index]));
  const others = dimensions.map((_, index) => index).filter((index) => index !== across && index !== down);
  const panels = new Map<string, Panel>();
  const left: number[] = [];
  for (let place = 0; place < ranks.size; place++) {
    const [column, row] = [coordinates[across][place], coordinates[down][place]];
    if (column === null || row === null) {
      left.push(place);
      continue;
    }
    const outer = others.filter((index) => ranks.extent(index).length > 1 && coordinates[index][place] !== null);
    const title = [roles.length > 1 ? ranks.role(place) : "", ...outer.map((index) => `${dimensions[index]}=${coordinates[index][place]}`)].filter(Boolean).join(" ");
    if (!panels.has(title)) panels.set(title, panel(title, columns.map(String), rows.map(String)));
    const cells = panels.get(title)!.cells;
    const key = columnOf.get(column)! + rowOf.get(row)! * columns.length;
    if (cells.has(key)) left.push(place);
    else cells.set(key, place);
  }
  const outer = others.filter((index) => ranks.extent(index).length > 1).map((index) => dimensions[index]);
  const name = `${dimensions[across]} × ${dimensions[down]}${outer.length ? `, by ${outer.join(", ")}` : ""}`;
  return { name, axes: [dimensions[across], dimensions[down]], panels: [...panels.values(), ...inRows(ranks, left)] };
}

/** Ranks without coordinates, or with those of another: a row for each role. */
function inRows(ranks: Ranks, places: number[], title = "other ranks"): Panel[] {
  const roles = new Map<string, number[]>();
  for (const place of places) {
    const role = (ranks.columns.roles.length > 1 && ranks.role(place)) || title;
    if (!roles.has(role)) roles.set(role, []);
    roles.get(role)!.push(place);
  }
  return [...roles].map(([role, some]) => {
    const row = panel(role, some.map((place) => String(ranks.columns.numbers[place] ?? "")), [""]);
    some.forEach((place, index) => row.cells.set(index, place));
    return row;
  });
}

/** Nodes across and local ranks down; the other way round where there are few nodes. */
function byNode(ranks: Ranks): Layout {
  const { host, hosts, locals, pids } = ranks.columns;
  const onHost: number[][] = hosts.map(() => []);
  const absent: number[] = []; // ranks that no process has taken
  const unknown: number[] = []; // dumps do not name their hosts
  for (let place = 0; place < ranks.size; place++) (hosts[host[place]] ? onHost[host[place]] : pids[place] ? unknown : absent).push(place);
  const isClean = onHost.every((places) => {
    const slots = places.map((place) => locals[place]);
    return !slots.includes(null) && new Set(slots).size === slots.length;
  });
  const slotsOf = onHost.map((places) => (isClean ? places.map((place) => locals[place]!) : places.map((_, index) => index)));
  const most = 1 + Math.max(0, ...slotsOf.flat().length ? slotsOf.map((slots) => slots.reduce((a, b) => Math.max(a, b), 0)) : [0]);
  const slots = Array.from({ length: most }, (_, index) => String(index));
  const nodes = hosts.map((_, index) => index).filter((index) => hosts[index]);
  const names = nodes.map((index) => hosts[index]);
  const flipped = nodes.length <= 4 || nodes.length < most / 2;
  const slotName = isClean ? "local rank" : "process";
  const axes: [string, string] = flipped ? [slotName, "node"] : ["node", slotName];
  const only = panel(`${axes[0]} across, ${axes[1]} down`, flipped ? slots : names, flipped ? names : slots);
  nodes.forEach((index, node) =>
    onHost[index].forEach((place, order) => {
      const slot = slotsOf[index][order];
      only.cells.set(flipped ? slot + node * most : node + slot * nodes.length, place);
    }),
  );
  return { name: `node × ${slotName}`, axes, panels: [...(nodes.length ? [only] : []), ...inRows(ranks, unknown, "ranks"), ...inRows(ranks, absent, absent.length === ranks.size ? "ranks" : "no process")] };
}

/** The largest cells with which all panels fit. */
export function placed(layout: Layout, width: number, size: number): Placed {
  const longest = layout.panels.reduce((most, each) => Math.max(most, ...[each.down[0], each.down.at(-1)!].map((name) => name.length)), 0);
  const label = Math.min(132, Math.max(34, longest * 6 + (layout.axes[1].length < 4 ? 6 * layout.axes[1].length + 10 : 12)));
  let cell = LARGEST;
  while (cell > SMALLEST && !fits(layout, width, label, cell)) cell--;
  const gap = gapOf(layout, width, label, cell);
  let [x, y, tallest] = [0, 0, 0];
  const at = new Float64Array(2 * size).fill(-1);
  for (const each of layout.panels) {
    const room = Math.max(1, Math.floor((width - label) / cell));
    each.perBand = Math.min(each.across.length, room);
    each.rowsOf = Math.ceil(each.across.length / each.perBand);
    const wide = label + Math.max(each.perBand * cell, titleWidth(each));
    const high = HEADER + each.rowsOf * (each.down.length * cell + BAND) - BAND + FOOTER;
    if (x > 0 && x + wide > width) [x, y, tallest] = [0, y + tallest + 6, 0];
    each.x = x + label;
    each.y = y + HEADER;
    for (const [key, place] of each.cells) {
      const [column, row] = [key % each.across.length, Math.floor(key / each.across.length)];
      const band = Math.floor(column / each.perBand);
      at[2 * place] = each.x + (column % each.perBand) * cell;
      at[2 * place + 1] = each.y + band * (each.down.length * cell + BAND) + row * cell;
    }
    x += wide + gap;
    tallest = Math.max(tallest, high);
  }
  return { ...layout, cell, label, height: y + tallest, at };
}

function fits(layout: Layout, width: number, label: number, cell: number): boolean {
  let [x, height, row] = [0, 0, 0];
  for (const each of layout.panels) {
    const perBand = Math.min(each.across.length, Math.max(1, Math.floor((width - label) / cell)));
    const bands = Math.ceil(each.across.length / perBand);
    if (bands > 1 && cell > 12) return false;
    const wide = label + Math.max(perBand * cell, titleWidth(each));
    const high = HEADER + bands * (each.down.length * cell + BAND) + FOOTER;
    if (x > 0 && x + wide > width) [x, height, row] = [0, height + row + 6, 0];
    x += wide + GAP;
    row = Math.max(row, high);
  }
  // Four or fewer panels are side by side, so that one look compares them.
  const sideBySide = layout.panels.length > 4 || height === 0 || cell <= 8;
  return x - GAP <= width && height + row <= TALLEST && sideBySide;
}

const titleWidth = (panel: Panel): number => 7 * Math.min(40, panel.title.length);

/** Panels of equal size fill the width, but do not drift apart. */
function gapOf(layout: Layout, width: number, label: number, cell: number): number {
  const widths = layout.panels.map((each) => label + Math.max(each.across.length * cell, titleWidth(each)));
  const widest = Math.max(0, ...widths);
  const inRow = Math.min(widths.length, Math.floor((width + GAP) / (widest + GAP)));
  if (inRow < 2) return GAP;
  return Math.min(GAP + 44, Math.floor((width - inRow * widest) / (inRow - 1)));
}
