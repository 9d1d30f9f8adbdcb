// Sets of ranks: masks in the page, short texts in the document and in the selection box.

/** 1 at the place of each member. */
export type Mask = Uint8Array;

export function placesOf(text: string): number[] {
  const places: number[] = [];
  for (const part of text ? text.split(",") : []) {
    const [first, last] = part.split("-").map(Number);
    for (let place = first; place <= (last ?? first); place++) places.push(place);
  }
  return places;
}

export function maskOf(places: Iterable<number>, size: number): Mask {
  const mask = new Uint8Array(size);
  for (const place of places) mask[place] = 1;
  return mask;
}

export function membersOf(mask: Mask): number[] {
  const members: number[] = [];
  for (let place = 0; place < mask.length; place++) if (mask[place]) members.push(place);
  return members;
}

export function sizeOf(mask: Mask): number {
  let size = 0;
  for (const member of mask) size += member;
  return size;
}

export function isSame(one: Mask, other: Mask): boolean {
  return one.length === other.length && one.every((member, place) => member === other[place]);
}

/** `0-6,8`, as rankdbg prints it. */
export function formatNumbers(numbers: Iterable<number>): string {
  const ordered = [...new Set(numbers)].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let start = 0; start < ordered.length; ) {
    let end = start;
    while (ordered[end + 1] === ordered[end] + 1) end++;
    parts.push(start === end ? `${ordered[start]}` : `${ordered[start]}-${ordered[end]}`);
    start = end + 1;
  }
  return parts.join(",");
}
