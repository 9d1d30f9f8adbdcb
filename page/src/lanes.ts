// Collectives: a lane for each process group, who has entered and who is missing.

import type { Lane } from "./document";
import { counted, h, lasting, pickable, s, shortened } from "./dom";
import type { PageState } from "./page_state";
import { placesOf } from "./sets";

const MOST_MARKS = 32;

export function lanesTable(state: PageState): HTMLElement[] {
  const { lanes, more_lanes: more, sentences } = state.document;
  const heads = ["group", "collective", "entered", "who (◇ missing)", "for", "missing"];
  const rows = lanes.map((lane) => laneRow(state, lane));
  return [
    ...sentences.slice(0, 4).map((text) => h("p", { class: "sentence" }, text)),
    h("table", { class: "lanes" }, h("thead", {}, h("tr", {}, ...heads.map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, ...rows)),
    ...(more ? [h("p", { class: "dim" }, `and ${counted(more)} more: rankdbg collectives --full`)] : []),
  ];
}

function laneRow(state: PageState, lane: Lane): HTMLTableRowElement {
  const members = placesOf(lane.members);
  const entered = placesOf(lane.entered).length;
  const mask = state.mask(lane.members);
  const missing = state.mask(lane.missing);
  const isHot = placesOf(lane.missing).some((place) => state.culprits[place]);
  const row = h(
    "tr",
    { class: "pick", title: lane.rows.map((each) => `${shortened(state.ranks.text(state.mask(each.ranks)), 40)}: ${each.text}`).join("\n") },
    h("td", {}, h("b", {}, lane.group), lane.groups > 1 ? h("span", { class: "dim" }, `  ${counted(lane.groups)} groups`) : null),
    h("td", {}, h("code", {}, lane.operation)),
    h("td", { class: "number" }, `${counted(entered)} of ${counted(members.length)}`),
    h("td", {}, marks(state, lane, members)),
    h("td", { class: "number" }, lane.seconds !== null ? lasting(lane.seconds) : ""),
    h("td", { class: isHot ? "clip hot" : "clip" }, lane.missing ? h("code", {}, shortened(state.ranks.text(missing), 44)) : h("span", { class: "dim" }, lane.waits ? "none: all have entered" : "none")),
  );
  pickable(row, () => state.toggle(lane.missing && lane.groups === 1 && state.isSelected(mask) ? missing : mask));
  const paint = (): void => void row.classList.toggle("on", state.isSelected(mask));
  state.watch(paint, row);
  paint();
  return row;
}

/** A square for each that has entered, a hollow diamond for each that is missing. */
function marks(state: PageState, lane: Lane, members: number[]): SVGElement {
  const entered = state.mask(lane.entered);
  const missing = state.mask(lane.missing);
  const folds = Math.max(1, Math.ceil(members.length / MOST_MARKS));
  const count = Math.ceil(members.length / folds);
  const svg = s("svg", { width: count * 9, height: 14, viewBox: `0 0 ${count * 9} 14`, role: "img", "aria-label": lane.missing ? `missing: ${shortened(state.ranks.text(missing), 60)}` : "all have entered" });
  for (let mark = 0; mark < count; mark++) {
    const some = members.slice(mark * folds, (mark + 1) * folds);
    const x = mark * 9;
    if (some.some((place) => missing[place])) {
      const isHot = some.some((place) => missing[place] && state.culprits[place]);
      svg.append(s("path", { class: isHot ? "missing hot" : "missing", d: `M${x + 4} 2.4L${x + 8.6} 7L${x + 4} 11.6L${x - 0.6} 7Z` }));
    } else svg.append(s("rect", { class: some.every((place) => entered[place]) && lane.waits ? "entered" : "entered done", x: x + 1, y: 4, width: 6, height: 6 }));
  }
  return svg;
}
