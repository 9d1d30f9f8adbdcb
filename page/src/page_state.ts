// What is selected and shown; all of it is in the address, so that it can be sent.

import type { PageDocument } from "./document";
import { Ranks } from "./ranks";
import { parseSelection } from "./selection";
import { isSame, maskOf, placesOf, sizeOf, type Mask } from "./sets";

/** Colours and shapes of classes, the largest first; `hot` is the culprit's alone. */
export const FILLS = ["a", "b", "c", "d", "e", "f"] as const;
export type Fill = (typeof FILLS)[number] | "hot";

export class PageState {
  readonly ranks: Ranks;
  readonly culprits: Mask;
  readonly culpritCount: number;
  /** Of each colouring and rank: the index of its class, -1 for none. */
  readonly classOf: Int32Array[];
  readonly fills: Fill[][];
  selected: Mask;
  selectedCount = 0;
  colouring = 0;
  layout = "";
  private readonly watchers: (() => void)[] = [];
  private text = "";
  private writing = 0;

  constructor(readonly document: PageDocument) {
    this.ranks = new Ranks(document.ranks);
    this.culprits = this.mask(document.verdict.culprits);
    this.culpritCount = sizeOf(this.culprits);
    this.selected = new Uint8Array(this.ranks.size);
    this.classOf = document.colourings.map((colouring) => {
      const column = new Int32Array(this.ranks.size).fill(-1);
      colouring.classes.forEach((each, index) => {
        for (const place of placesOf(each.ranks)) column[place] = index;
      });
      return column;
    });
    this.fills = document.colourings.map((colouring) => {
      let next = 0;
      return colouring.classes.map((each) => {
        const places = placesOf(each.ranks);
        if (this.culpritsStandOut && places.length && places.every((place) => this.culprits[place])) return "hot";
        return FILLS[Math.min(next++, FILLS.length - 1)];
      });
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
    for (const watcher of this.watchers) watcher();
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

  watch(watcher: () => void): void {
    this.watchers.push(watcher);
  }

  // ---- the address

  /** Soon: browsers refuse an address that changes with each move of the pointer. */
  writeAddress(): void {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => this.writeAddressNow(), 200);
  }

  private writeAddressNow(): void {
    const told = new URLSearchParams();
    if (this.text) told.set("ranks", this.text);
    if (this.colouring) told.set("colour", this.document.colourings[this.colouring].name);
    if (this.layout) told.set("layout", this.layout);
    try {
      history.replaceState(null, "", `#${told}`);
    } catch {
      // not every browser allows it for a file
    }
  }

  readAddress(): void {
    const told = new URLSearchParams(location.hash.slice(1));
    const named = this.document.colourings.findIndex((each) => each.name === told.get("colour"));
    this.colouring = Math.max(0, named);
    this.layout = told.get("layout") ?? "";
    try {
      const ranks = told.get("ranks");
      if (ranks) {
        this.selected = parseSelection(ranks, this.ranks);
        this.selectedCount = sizeOf(this.selected);
        this.text = this.ranks.text(this.selected);
      }
    } catch {
      // an address of another report
    }
  }
}
