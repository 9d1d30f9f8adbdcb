// The verdict: the sentence, the chain of waits, and what they rest on.

import type { ChainNode, Fact } from "./document";
import { h, onPick, s, shortened, textWidth } from "./dom";
import type { PageState } from "./page_state";

export function verdictSection(state: PageState): HTMLElement {
  const { verdict } = state.document;
  const isHot = state.document.verdict.facts.length > 0;
  const chain = h("figure", { class: "chain" });
  return h(
    "section",
    { id: "verdict", class: "verdict", "aria-labelledby": "title" },
    verdict.says ? h("p", { class: "state" }, s("svg", { width: 12, height: 12, "aria-hidden": "true" }, isHot ? s("path", { class: "fill-hot", d: "M1 1h10v10h-10z" }) : s("path", { class: "fill-ok", d: "M6 1a5 5 0 1 0 .01 0z" })), verdict.says) : null,
    h("h1", { id: "title" }, verdict.title),
    verdict.subtitle ? h("p", { class: "subtitle" }, verdict.subtitle) : null,
    verdict.nodes.length > 1 ? chain : null,
    h(
      "div",
      { class: "facts" },
      verdict.facts.length ? factList(verdict.facts) : null,
      evidence(state),
      ...verdict.further.map((facts) => factList(facts, "further")),
    ),
    ...verdict.notes.map((note) => h("p", { class: "dim" }, note)),
    verdict.logs ? h("pre", { class: "logs", tabindex: 0, role: "region", "aria-label": "What the logs say" }, verdict.logs) : null,
  );
}

function factList(facts: Fact[], kind = ""): HTMLElement {
  const list = h("dl", { class: `said ${kind}`.trim() });
  for (const fact of facts) {
    const isCulprit = fact.name === "culprit";
    list.append(
      h("dt", {}, fact.name),
      h("dd", {}, isCulprit ? h("b", {}, fact.text) : fact.text, fact.tag ? h("span", { class: "tag" }, ` [${fact.tag}]`) : null, fact.more ? h("span", { class: "more" }, fact.more) : null),
    );
  }
  return list;
}

function evidence(state: PageState): HTMLElement | null {
  const { confidence, evidence: proofs } = state.document.verdict;
  if (!confidence && !proofs.length) return null;
  const list = h("dl", { class: "said" });
  if (confidence) {
    const level = { low: 1, medium: 2, high: 3 }[confidence] ?? 0;
    const bars = h("span", { class: "bars", "aria-hidden": "true" }, ...[1, 2, 3].map((bar) => h("i", { class: bar > level ? "off" : "" })));
    list.append(h("dt", {}, "confidence"), h("dd", { class: "confidence" }, h("b", {}, confidence), bars));
  }
  if (proofs.length) list.append(h("dt", {}, confidence ? "evidence" : ""), h("dd", {}, h("ul", { class: "proofs" }, ...proofs.map((proof) => h("li", {}, proof)))));
  return list;
}

// ---- the chain: columns from left to right, each with those for whom the column before it waits

interface Box {
  node: ChainNode;
  lines: string[];
  index: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

const TOP = 18;
const BELOW = 34;
const LEAST_GAP = 128;
const MOST_GAP = 300;

export function drawChain(state: PageState): void {
  const figure = document.querySelector(".chain");
  if (!figure) return;
  const { nodes, edges, left_out: leftOut } = state.document.verdict;
  const sans = getComputedStyle(document.body).fontFamily;
  const boxes: Box[] = nodes.map((node, index) => {
    const isMarked = node.hot && isAccused(node);
    const lines = linesOf(state, node);
    const widths = lines.map((line) => textWidth(line, `11px ${sans}`));
    const width = 26 + Math.max(textWidth(node.title, `600 14px ${sans}`) + (isMarked ? 20 : 0), ...widths, textWidth(node.role, `600 11px ${sans}`) - 22, 60);
    return { node, lines, index, x: 0, y: 0, width: Math.ceil(width), height: 38 + 15 * lines.length };
  });
  const columns = inColumns(boxes, edges);
  const widths = columns.map((column) => Math.max(...column.map((box) => box.width)));
  const labels = edges.map((edge) => Math.max(...wrapped(edge.label).map((line) => textWidth(line, `12px ${sans}`))));
  const needed = Math.max(LEAST_GAP, ...labels.map((width) => width + 34));
  const room = figure.clientWidth - 2 - widths.reduce((sum, width) => sum + width, 0);
  const gap = Math.max(needed, Math.min(MOST_GAP, columns.length > 1 ? room / (columns.length - 1) : 0));
  const heights = columns.map((column) => column.reduce((sum, box) => sum + TOP + box.height + BELOW, -BELOW));
  const height = Math.max(...heights) + 14;
  let x = 1;
  columns.forEach((column, number) => {
    let y = (height - heights[number]) / 2;
    for (const box of column) {
      box.x = x;
      box.y = y + TOP;
      y += TOP + box.height + BELOW;
    }
    x += widths[number] + gap;
  });
  const width = Math.max(figure.clientWidth, x - gap + 6);
  const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": state.document.verdict.state === "failed" ? "What followed from the failure" : "Chain of waits, from the waiting ranks to the culprit" });
  for (const edge of edges) drawEdge(svg, boxes[edge.source], boxes[edge.target], edge.label);
  for (const box of boxes) svg.append(drawBox(state, box));
  figure.replaceChildren(svg, ...(leftOut ? [h("p", { class: "dim" }, `and ${leftOut} more that wait: rankdbg why --graph FILE.svg`)] : []));
}

const isAccused = (node: ChainNode): boolean => node.role === "culprit" || node.role === "cause";

/** Several ranks are named as a selection would name them. */
function linesOf(state: PageState, node: ChainNode): string[] {
  if (node.kind !== "ranks") return node.lines;
  return [shortened(state.ranks.text(state.mask(node.ranks)), 30), ...node.lines];
}

function inColumns(boxes: Box[], edges: { source: number; target: number }[]): Box[][] {
  const targets = new Set(edges.filter((edge) => edge.source !== edge.target).map((edge) => edge.target));
  const depth = new Map<number, number>();
  let row = boxes.map((box) => box.index).filter((index) => !targets.has(index));
  if (!row.length) row = [0];
  // The longest way to each node; no way is longer than there are nodes, circles or not.
  for (let level = 0; row.length && level < boxes.length; level++) {
    const next = new Set<number>();
    for (const index of row) depth.set(index, level);
    for (const edge of edges) if (row.includes(edge.source) && edge.target !== edge.source && (!depth.has(edge.target) || !reaches(edges, edge.target, edge.source))) next.add(edge.target);
    row = [...next];
  }
  const columns: Box[][] = [];
  for (const box of boxes) {
    const level = depth.get(box.index) ?? 0;
    while (columns.length <= level) columns.push([]);
    columns[level].push(box);
  }
  return columns.filter((column) => column.length);
}

function reaches(edges: { source: number; target: number }[], from: number, to: number): boolean {
  const found = new Set([from]);
  for (const each of found) for (const edge of edges) if (edge.source === each) found.add(edge.target);
  return found.has(to);
}

function drawBox(state: PageState, box: Box): SVGElement {
  const { node, x, y, width, height } = box;
  const mask = state.mask(node.ranks);
  const isCulprit = isAccused(node);
  const round = node.kind === "process" ? 10 : 0;
  const group = s("g", { class: `node ${node.hot ? "hot" : ""} ${isCulprit ? "culprit" : ""}` });
  if (node.kind === "ranks") group.append(s("rect", { class: "back", x: x + 4.5, y: y - 3.5, width: width - 4, height }));
  group.append(
    s("rect", { class: "box", x: x + 0.5, y: y + 0.5, width: width - (node.kind === "ranks" ? 4 : 1), height, rx: round }),
    s("text", { class: node.hot ? "role hot" : "role", x: x + 1, y: y - 8 }, node.role),
    " ",
  );
  if (isCulprit) group.append(s("path", { class: "fill-hot", d: `M${x + 19} ${y + 13}l6 6l-6 6l-6 -6z` }));
  group.append(s("text", { class: "title", x: x + (isCulprit ? 31 : 12), y: y + 24 }, node.title));
  box.lines.forEach((line, index) => group.append(" ", s("text", { class: "dim", x: x + 12, y: y + 42 + 15 * index }, line)));
  if (!node.ranks) return group;
  group.setAttribute("tabindex", "0");
  group.setAttribute("role", "button");
  onPick(group, () => state.toggle(mask));
  const paint = (): void => void group.classList.toggle("on", state.isSelected(mask));
  state.watch(paint, group);
  paint();
  return group;
}

function drawEdge(svg: SVGElement, source: Box, target: Box, label: string): void {
  const isHot = source.node.hot && target.node.hot;
  const kind = isHot ? " hot" : "";
  const [x1, y1] = [source.x + source.width + 4, source.y + source.height / 2];
  const [x2, y2] = [target.x - 4, target.y + target.height / 2];
  const lines = wrapped(label);
  if (x2 > x1) {
    const middle = (x1 + x2) / 2;
    const path = Math.abs(y1 - y2) < 1 ? `M${x1} ${y1}H${x2 - 6}` : `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2 - 6} ${y2}`;
    svg.append(s("path", { class: `edge${kind}`, d: path }), s("path", { class: `tip${kind}`, d: `M${x2} ${y2}l-9 -4.5v9z` }));
    const y = (y1 + y2) / 2 - 8 - 14 * (Math.min(lines.length, 2) - 1);
    lines.forEach((line, index) => svg.append(s("text", { class: index ? "over dim" : "over", x: middle, y: y + (index > 1 ? 10 : 0) + 14 * index, "text-anchor": "middle" }, line)));
    return;
  }
  // Back to one that is waited for already: a circle.
  const below = Math.max(source.y + source.height, target.y + target.height) + 12;
  const [from, to] = [source.x + source.width / 2, target.x + target.width / 2];
  svg.append(
    s("path", { class: `edge${kind}`, d: `M${from} ${source.y + source.height + 2}V${below}H${to}V${target.y + target.height + 9}` }),
    s("path", { class: `tip${kind}`, d: `M${to} ${target.y + target.height + 1}l-4.5 9h9z` }),
    s("text", { class: "over", x: (from + to) / 2, y: below + 4, "text-anchor": "middle" }, lines.join(" ")),
  );
}

/** In lines of a few words: `all_reduce #8` / `of dp`. */
function wrapped(text: string): string[] {
  const lines: string[] = [];
  for (const word of text.split(/ (?=of |\()| /)) {
    const last = lines.at(-1);
    if (last !== undefined && `${last} ${word}`.length <= 24 && !/^(of|\()/.test(word)) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines.length > 3 ? [...lines.slice(0, 2), `${lines[2]}…`] : lines;
}
