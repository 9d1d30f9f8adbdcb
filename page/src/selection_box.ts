// The selection as text, in the grammar of the command line.

import { h, ranksOf } from "./dom";
import type { PageState } from "./page_state";
import { parseSelection, SelectionError } from "./selection";

export function selectionBox(state: PageState): HTMLElement {
  const first = state.document.ranks.dimensions[0];
  const example = first ? `${first}=0  or  3  or  0-6,9` : "3  or  0-6,9  or  host=…";
  const input = h("input", { id: "selection", autocomplete: "off", spellcheck: "false", placeholder: example, "aria-describedby": "selection-error" });
  const count = h("output", { for: "selection" });
  const clear = h("button", { class: "clear", type: "button", "aria-label": "Clear the selection" }, "✕");
  const problem = h("div", { id: "selection-error", class: "problem", role: "alert", hidden: true });
  const form = h("form", { class: "selection", role: "search" }, h("label", { for: "selection" }, "select"), input, count, clear, problem);
  let isTyping = false; // then a newer document of the job does not take it away
  const show = (): void => {
    const some = state.hasSelection;
    if (!isTyping) input.value = state.selectedText;
    count.textContent = some ? ranksOf(state.selectedCount) : `all ${ranksOf(state.ranks.size)}`;
    clear.hidden = !some;
    if (isTyping) return;
    problem.hidden = true;
    input.removeAttribute("aria-invalid");
  };
  const apply = (): void => {
    isTyping = false;
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
  input.addEventListener("input", () => { isTyping = problem.hidden = true; });
  clear.addEventListener("click", () => { isTyping = false; state.clear(); });
  state.watch(show);
  show();
  return form;
}
