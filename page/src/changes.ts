// What the live page is sent: places in the document, each with its new value.

import type { PageDocument } from "./document";

export type Change = [(string | number)[], unknown];
type Container = Record<string | number, unknown>;

/** The document after these changes. The old one is left as it is, and shares what has not changed. */
export function changed(document: PageDocument, changes: Change[]): PageDocument {
  const copies = new Set<unknown>();
  const copyOf = (value: unknown): Container => {
    if (copies.has(value)) return value as Container;
    const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Container;
    copies.add(copy);
    return copy;
  };
  const whole = copyOf(document);
  for (const [way, value] of changes) {
    let container = whole;
    for (const name of way.slice(0, -1)) container = (container[name] = copyOf(container[name])) as Container;
    container[way.at(-1)!] = value;
  }
  return whole as unknown as PageDocument;
}

/** The names of the parts that differ. */
export function partsThatDiffer(one: PageDocument, other: PageDocument): Set<string> {
  const differ = (name: keyof PageDocument): boolean => one[name] !== other[name] && JSON.stringify(one[name]) !== JSON.stringify(other[name]);
  return new Set((Object.keys(other) as (keyof PageDocument)[]).filter(differ));
}
