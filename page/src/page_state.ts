// What is selected and shown; all of it is in the address, so that it can be sent.

import type { Colouring, PageDocument } from "./document";
import { NodeHistory } from "./node_history";
import { Ranks } from "./ranks";
import { parseSelection } from "./selection";
import { isSame, maskOf, placesOf, sizeOf, type Mask } from "./sets";

/** Colours and shapes of classes, the largest first; `hot` is the culprit's alone. */
export const FILLS = ["a", "b", "c", "d", "e", "f"] as const;
const MOST_KNOWN = 2000; // classes whose colour is remembered
export type Fill = (typeof FILLS)[number] | "hot";

/** What views have chosen; all of it is in the address. */
export const CHOICES = ["layout", "thread", "frames", "width", "time", "find", "ask", "grep", "nodes", "flame", "call"] as const;
export type Choice = (typeof CHOICES)[number];

interface Watcher {
  run: () => void;
  element: Element | null;
}

export class PageState {
  document!: PageDocument;
  ranks!: Ranks;
  culprits!: Mask;
  culpritCount = 0;
  /** Of each colouring and rank: the index of its class, -1 for none. */
  classOf: Int32Array[] = [];
  fills: Fill[][] = [];
  selected: Mask = new Uint8Array(0);
  selectedCount = 0;
  colouring = 0;
  readonly chosen: Record<Choice, string> = { layout: "", thread: "", frames: "", width: "", time: "", find: "", ask: "", grep: "", nodes: "", flame: "", call: "" };
  /** What a view that is built again goes on with. */
  readonly kept = new Map<string, string>();
  readonly history = new NodeHistory();
  private watchers: Watcher[] = [];
  private text = "";
  private writing = 0;
  private readonly fillOf = new Map<string, Fill>();

  constructor(document: PageDocument) {
    this.load(document);
  }

  /** A newer document of the same job: what is selected and chosen stays. */
  load(document: PageDocument): void {
    const colouring = this.document?.colourings[this.colouring]?.name;
    this.document = document;
    this.ranks = new Ranks(document.ranks);
    this.culprits = this.mask(document.verdict.culprits);
    this.culpritCount = sizeOf(this.culprits);
    this.classOf = document.colourings.map((each) => {
      const column = new Int32Array(this.ranks.size).fill(-1);
      each.classes.forEach((one, index) => {
        for (const place of placesOf(one.ranks)) column[place] = index;
      });
      return column;
    });
    this.fills = document.colourings.map((each) => this.fillsOf(each));
    this.colouring = Math.max(0, document.colourings.findIndex((each) => each.name === colouring));
    const selected = this.text;
    this.selected = new Uint8Array(this.ranks.size);
    this.selectedCount = 0;
    this.text = "";
    if (selected) this.selectText(selected);
  }

  /** A class keeps its colour for as long as the page is open. */
  private fillsOf(colouring: Colouring): Fill[] {
    const taken = new Set<Fill>();
    const counts = new Map<string, number>();
    const keys = colouring.classes.map((each) => {
      const place = [colouring.name, each.text, each.at].join("\0");
      counts.set(place, (counts.get(place) ?? 0) + 1);
      return `${place}\0${counts.get(place)}`;
    });
    if (this.fillOf.size > MOST_KNOWN) this.fillOf.clear();
    const fills = colouring.classes.map((each, index): Fill | null => {
      const places = placesOf(each.ranks);
      if (each.odd) return "hot";
      if (this.culpritsStandOut && places.length && places.every((place) => this.culprits[place])) return "hot";
      const known = this.fillOf.get(keys[index]);
      if (!known || taken.has(known)) return null;
      taken.add(known);
      return known;
    });
    return fills.map((fill, index) => {
      if (fill) return fill;
      const free = FILLS.find((each) => !taken.has(each)) ?? FILLS.at(-1)!;
      taken.add(free);
      this.fillOf.set(keys[index], free);
      return free;
    });
  }

  /** Where most ranks are accused, none of them is the odd one: then their groups are told apart. */
  get culpritsStandOut(): boolean {
    return this.culpritCount > 0 && this.culpritCount <= Math.max(2, this.ranks.size / 2);
  }

  mask = (text: string): Mask => maskOf(placesOf(text), this.ranks.size);

  get hasSelection(): boolean {
    return this.selectedCount > 0 && this.selectedCount < this.ranks.size;
  }

  select(mask: Mask): void {
    this.selected = mask;
    this.selectedCount = sizeOf(mask);
    this.text = this.hasSelection ? this.ranks.text(mask) : "";
    this.notify();
    this.writeAddress();
  }

  /** `` where nothing or everything is selected. */
  get selectedText(): string {
    return this.text;
  }

  clear(): void {
    this.select(new Uint8Array(this.ranks.size));
  }

  /** Selects these, or nothing if they are selected already. */
  toggle(mask: Mask): void {
    if (this.selectedCount && isSame(mask, this.selected)) this.clear();
    else this.select(mask);
  }

  isSelected = (mask: Mask): boolean => this.selectedCount > 0 && isSame(mask, this.selected);

  /** Run whenever the selection changes, for as long as the element is in the page. */
  watch(run: () => void, element: Element | null = null): void {
    this.watchers.push({ run, element });
  }

  /** After a view has been built again. */
  dropWatchers(): void {
    this.watchers = this.watchers.filter(({ element }) => !element || element.isConnected);
  }

  notify(): void {
    for (const { run } of this.watchers) run();
  }

  choose(name: Choice, value: string): void {
    this.chosen[name] = value;
    this.writeAddress();
  }

  // ---- the address

  /** Soon: browsers refuse an address that changes with each move of the pointer. */
  writeAddress(): void {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => this.writeAddressNow(), 200);
  }

  private writeAddressNow(): void {
    const parts = new URLSearchParams();
    if (this.text) parts.set("ranks", this.text);
    if (this.colouring) parts.set("colour", this.document.colourings[this.colouring].name);
    for (const name of CHOICES) if (this.chosen[name]) parts.set(name, this.chosen[name]);
    try {
      history.replaceState(null, "", `#${parts}`);
    } catch {
      // not every browser allows it for a file
    }
  }

  readAddress(): void {
    const parts = new URLSearchParams(location.hash.slice(1));
    const named = this.document.colourings.findIndex((each) => each.name === parts.get("colour"));
    this.colouring = Math.max(0, named);
    for (const name of CHOICES) this.chosen[name] = parts.get(name) ?? "";
    this.selectText(parts.get("ranks") ?? "");
  }

  private selectText(text: string): void {
    try {
      if (!text) return;
      this.selected = parseSelection(text, this.ranks);
      this.selectedCount = sizeOf(this.selected);
      this.text = this.ranks.text(this.selected);
    } catch {
      // an address of another report, or ranks that are no longer there
    }
  }
}
