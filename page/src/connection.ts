// The connection of a live page: it is made again for as long as the page is open.

import type { Change } from "./changes";
import type { Colouring, PageDocument } from "./document";

export interface LiveState {
  status: "first" | "live" | "saved" | "lost";
  problem: string;
  age: number | null; // seconds since the document was known to be true
}

/** What ranks have answered to an expression; its sets of ranks are places in the newest document. */
export interface Answer {
  expression: string;
  colouring?: Colouring;
  problem: string;
}

export interface LogAnswer {
  ranks: string;
  grep: string;
  messages?: { time: string; ranks: string; text: string }[]; // oldest first
  notes?: string[];
  problem: string;
}

export interface LiveMessage {
  logs?: LogAnswer;
  live: LiveState;
  answer?: Answer;
  document?: PageDocument;
  changes?: Change[];
}

const LONGEST_WAIT = 10_000;

export class Connection {
  isOpen = false;
  private socket: WebSocket | null = null;
  private wait = 500;
  private pace = 0;

  constructor(private readonly onMessage: (message: LiveMessage) => void, private readonly onChange: () => void) {}

  /** Seconds between two looks at the job; 0: none. */
  setPace(seconds: number): void {
    this.pace = seconds;
    if (this.isOpen) this.socket!.send(JSON.stringify({ pace: seconds }));
  }

  /** False if there is no connection. */
  ask(expression: string): boolean {
    if (this.isOpen) this.socket!.send(JSON.stringify({ ask: expression }));
    return this.isOpen;
  }

  readLogs(ranks: string, grep: string): void {
    if (this.isOpen) this.socket!.send(JSON.stringify({ logs: { ranks, grep } }));
  }

  open(): void {
    const address = new URL("live", location.href);
    address.protocol = "ws:";
    address.hash = "";
    const socket = (this.socket = new WebSocket(address));
    socket.addEventListener("open", () => {
      this.isOpen = true;
      this.wait = 500;
      this.setPace(this.pace);
      this.onChange();
    });
    socket.addEventListener("message", (event) => this.onMessage(JSON.parse(event.data as string) as LiveMessage));
    socket.addEventListener("close", () => {
      this.isOpen = false;
      this.onChange();
      setTimeout(() => this.open(), this.wait);
      this.wait = Math.min(2 * this.wait, LONGEST_WAIT);
    });
  }
}
