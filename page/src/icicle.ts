// What all pictures of call trees share: rows of frames, in which arrow keys go to the nearest one.

export const ROW = 22;
export const LETTER = 6.7; // pixels, of the frames' type
export const NARROWEST = 24; // pixels; frames that are narrower join as `+14`

export function placeFrame(element: HTMLElement, x: number, wide: number, row: number): void {
  element.style.left = `${x}px`;
  element.style.width = `${Math.max(2, wide)}px`;
  element.style.top = `${row * ROW}px`;
}

/** To the nearest frame in the direction of an arrow key. */
export function moveFocus(event: KeyboardEvent, from: HTMLButtonElement, buttons: Iterable<HTMLButtonElement>): void {
  const step = ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] } as Record<string, number[]>)[event.key];
  if (!step) return;
  event.preventDefault();
  const box = from.getBoundingClientRect();
  let [best, distance] = [from, Infinity];
  for (const button of buttons) {
    const other = button.getBoundingClientRect();
    const [across, down] = [other.left - box.left, (other.top - box.top) / ROW];
    if (step[1] ? Math.sign(Math.round(down)) !== step[1] : Math.round(down) !== 0 || Math.sign(across) !== step[0]) continue;
    const away = Math.abs(across) + 5000 * Math.abs(down);
    if (button !== from && away < distance) [best, distance] = [button, away];
  }
  best.focus();
}
