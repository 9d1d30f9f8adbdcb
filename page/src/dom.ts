// Elements. Text of a job only ever becomes a text node: no string is parsed as HTML anywhere.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined>;

const SVG = "http://www.w3.org/2000/svg";

function filled<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return filled(document.createElement(tag), attributes, children);
}

export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** A click, or Enter or Space where the focus is. */
export function onPick(element: Element, pick: () => void): void {
  element.addEventListener("click", pick);
  element.addEventListener("keydown", (event) => {
    const key = (event as KeyboardEvent).key;
    if (key !== "Enter" && key !== " ") return;
    event.preventDefault();
    pick();
  });
}

export function pickable(element: Element, pick: () => void): void {
  element.setAttribute("tabindex", "0");
  onPick(element, pick);
}

const grouped = new Intl.NumberFormat("en-US");
export const counted = (value: number): string => grouped.format(value);
export const ranksOf = (value: number): string => `${counted(value)} ${value === 1 ? "rank" : "ranks"}`;

export function lasting(seconds: number): string {
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
}

export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const cut = text.slice(0, most - 1);
  return `${cut.includes(",") ? cut.replace(/,[^,]*$/, ",") : cut}…`;
}

const measure = document.createElement("canvas").getContext("2d")!;
export function textWidth(text: string, font: string): number {
  measure.font = font;
  return measure.measureText(text).width;
}

/** Wide screens are enlarged as a whole; pointers count real pixels. */
export const zoom = (): number => Number(getComputedStyle(document.documentElement).zoom) || 1;

// ---- a small note beside the pointer

let tip: HTMLElement | null = null;

export function showTip(event: { clientX: number; clientY: number }, title: string, lines: Child[]): void {
  if (!tip) document.body.append((tip = h("div", { id: "tip", role: "tooltip" })));
  tip.replaceChildren(h("b", {}, title), ...lines.filter(Boolean).map((line) => h("span", {}, line)));
  tip.style.visibility = "visible";
  const scale = zoom();
  const [x, y] = [event.clientX / scale, event.clientY / scale];
  const [width, height] = [innerWidth / scale, innerHeight / scale];
  tip.style.left = `${Math.max(8, Math.min(x + 14, width - tip.offsetWidth - 12))}px`;
  tip.style.top = `${y + 18 + tip.offsetHeight > height ? y - tip.offsetHeight - 10 : y + 18}px`;
}

export function hideTip(): void {
  if (tip) tip.style.visibility = "hidden";
}
