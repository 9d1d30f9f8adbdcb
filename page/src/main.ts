// The report: the page with its document inside.

import type { PageDocument } from "./document";
import { counted, h, ranksOf, s } from "./dom";
import { Grid } from "./grid";
import { lanesTable } from "./lanes";
import { PageState } from "./page_state";
import { parseSelection, SelectionError } from "./selection";
import { Stacks } from "./stacks";
import { drawChain, verdictSection } from "./verdict";

const state = new PageState(JSON.parse(document.getElementById("document")!.textContent!) as PageDocument);
state.readAddress();

interface Section {
  section: HTMLElement;
  tools: HTMLElement;
}

function section(id: string, title: string, says: string): Section {
  const tools = h("div", { class: "tools" });
  const heading = h("div", { class: "heading" }, h("h2", { id: `${id}-title` }, title), says ? h("p", { class: "says" }, says) : null, tools);
  return { section: h("section", { id, "aria-labelledby": `${id}-title` }, heading), tools };
}

// ---- the header

function header(): HTMLElement {
  const { job, target, time, ranks } = state.document;
  const hosts = ranks.hosts.filter(Boolean).length;
  const mesh = ranks.dimensions.map((name, index) => `${name}=${state.ranks.extent(index).length}`).join(" ");
  const where = hosts > 1 ? ` on ${counted(hosts)} nodes` : hosts === 1 ? ` on ${ranks.hosts.find(Boolean)}` : "";
  const facts = h("dl", { class: "about" });
  const add = (name: string, text: string, wide = false): void => {
    if (text) facts.append(h("div", { class: wide ? "wide" : null }, h("dt", {}, name), h("dd", { title: text }, text)));
  };
  add("report of", job);
  add("target", target);
  add("ranks", state.ranks.size ? `${ranksOf(state.ranks.size).replace(/ ranks?$/, "")}${where}` : "");
  add("mesh", mesh, true);
  add("data of", moment(time));
  const mark = s(
    "svg",
    { width: 20, height: 20, viewBox: "0 0 20 20", "aria-hidden": "true" },
    s("path", { class: "fill-a", d: "M1 1h5v5h-5zM7.5 1h5v5h-5zM14 1h5v5h-5zM1 7.5h5v5h-5zM14 7.5h5v5h-5zM1 14h5v5h-5zM7.5 14h5v5h-5zM14 14h5v5h-5z" }),
    s("path", { class: state.culpritCount ? "fill-hot" : "fill-b", d: "M10 5.6L14.4 10L10 14.4L5.6 10Z" }),
  );
  return h("header", { class: "top" }, h("div", { class: "brand" }, mark, "rankdbg"), facts, state.ranks.size ? selectionBox() : null);
}

/** 18 November, 03:11:26 UTC: a report is read hours later, and far away. */
function moment(time: string): string {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return time;
  const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" }).format(date);
  return `${day}, ${date.toISOString().slice(11, 19)} UTC`;
}

function selectionBox(): HTMLElement {
  const first = state.document.ranks.dimensions[0];
  const example = first ? `${first}=0  or  3  or  0-6,9` : "3  or  0-6,9  or  host=…";
  const input = h("input", { id: "selection", autocomplete: "off", spellcheck: "false", placeholder: example, "aria-describedby": "selection-error" });
  const count = h("output", { for: "selection" });
  const clear = h("button", { class: "clear", type: "button", "aria-label": "Clear the selection" }, "✕");
  const problem = h("div", { id: "selection-error", class: "problem", role: "alert", hidden: true });
  const form = h("form", { class: "selection", role: "search" }, h("label", { for: "selection" }, "select"), input, count, clear, problem);
  const show = (): void => {
    const some = state.hasSelection;
    input.value = state.selectedText;
    count.textContent = some ? ranksOf(state.selectedCount) : `all ${ranksOf(state.ranks.size)}`;
    clear.hidden = !some;
    problem.hidden = true;
    input.removeAttribute("aria-invalid");
  };
  const apply = (): void => {
    try {
      if (input.value.trim()) state.select(parseSelection(input.value, state.ranks));
      else state.clear();
    } catch (error) {
      if (!(error instanceof SelectionError)) throw error;
      problem.textContent = error.shown();
      problem.hidden = false;
      input.setAttribute("aria-invalid", "true");
    }
  };
  form.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
  input.addEventListener("change", apply);
  input.addEventListener("input", () => { problem.hidden = true; });
  clear.addEventListener("click", () => state.clear());
  state.watch(show);
  show();
  return form;
}

// ---- the views

const main = h("main", {}, verdictSection(state));
let grid: Grid | null = null;
let stacks: Stacks | null = null;

if (state.ranks.size) {
  const groups = state.document.colourings[0].classes.length;
  const outside = state.ranks.outside.reduce((sum, each) => sum + each, 0);
  const says = [`${ranksOf(state.ranks.size)} in ${counted(groups)} ${groups === 1 ? "group" : "groups"} of equal stacks`, outside ? `${counted(outside)} without a full answer` : ""];
  const view = section("ranks", "Ranks", says.filter(Boolean).join("; "));
  grid = new Grid(state, view.tools);
  view.section.append(...grid.elements);
  main.append(view.section);
}
if (state.document.frames.length) {
  const moving = state.document.threads[0].groups.some((group) => group.moving);
  const { samples } = state.document;
  const says = samples > 1 ? (moving ? `${samples} samples; ranks that moved are shown by what their samples share` : `nothing moved in ${samples} samples`) : "one sample";
  const view = section("stacks", "Merged stacks", says);
  stacks = new Stacks(state, view.tools);
  view.section.append(...stacks.elements);
  main.append(view.section);
}
if (state.document.lanes.length) {
  const view = section("collectives", "Collectives", "by torch's flight recorder: a lane for each group, or for groups in the same situation");
  view.section.append(...lanesTable(state));
  main.append(view.section);
}
main.append(
  h("section", { class: "foot" }, h("p", {}, "Made by ", h("code", {}, `${state.document.command} --html`), ` of rankdbg ${state.document.version}. `, "Keys: ", h("kbd", {}, "/"), " select, ", h("kbd", {}, "f"), " search frames, ", h("kbd", {}, "Esc"), " clear. This file loads nothing from the network.")),
);
document.body.append(h("a", { class: "skip", href: "#verdict" }, "Skip to the verdict"), header(), main);

function drawAll(): void {
  drawChain(state);
  grid?.draw();
  stacks?.draw();
}

drawChain(state);
grid?.draw();
stacks?.rebuild();
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth !== width) requestAnimationFrame(drawAll);
  width = innerWidth;
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => grid?.draw());
addEventListener("beforeprint", () => grid?.draw());
addEventListener("keydown", (event) => {
  const target = event.target as Element;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (/INPUT|SELECT/.test(target.tagName)) {
    if (event.key === "Escape") (target as HTMLElement).blur();
    return;
  }
  if (event.key === "/") document.getElementById("selection")?.focus();
  else if (event.key === "f") stacks?.focusSearch();
  else if (event.key === "Escape") state.clear();
  else return;
  event.preventDefault();
});
