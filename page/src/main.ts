// The report: the page with its document inside.

import type { PageDocument } from "./document";
import { h } from "./dom";
import { Page } from "./page";

const shown = JSON.parse(document.getElementById("document")!.textContent!) as PageDocument;
new Page(shown, {
  of: "report of",
  hasTime: true,
  foot: ["Made by ", h("code", {}, `${shown.command} --html`), ` of rankdbg ${shown.version}. This file loads nothing from the network.`],
  keys: [["/", "select"], ["f", "search frames"], ["Esc", "clear"]],
});
