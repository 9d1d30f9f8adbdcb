// The grammar of ranks(...), as src/rankdbg/selection/ has it; an error names its place.

import type { Ranks } from "./ranks";
import { formatNumbers, sizeOf, type Mask } from "./sets";

export class SelectionError extends Error {
  constructor(what: string, readonly text: string, readonly start: number, readonly end: number, readonly hint = "") {
    super(what);
  }

  /** With a caret under the place, as a terminal shows it. */
  shown(): string {
    const caret = " ".repeat(this.start) + "^".repeat(Math.max(1, this.end - this.start));
    return [`error: ${this.message}`, `  ${this.text}`, `  ${caret}`, this.hint && `hint: ${this.hint}`]
      .filter(Boolean)
      .join("\n");
  }
}

interface Token {
  kind: string; // ( ) , ; = word quoted end
  text: string;
  start: number;
  end: number;
}

type Wanted = { first: number; end: number; step: number } | RegExp;
interface Value {
  wanted: Wanted;
  token: Token;
}
interface Term {
  key: string;
  values: Value[];
  token: Token;
}
interface RoleItem {
  role: Token;
  numbers: Token[];
}
interface Choice {
  terms: Term[];
  numbers: Token[];
  roles: RoleItem[];
  numbersFirst: boolean;
}

const TEXT_KEYS = ["role", "host", "state"];
const NUMBER_KEYS = ["rank", "pid"];
const NOT_HERE = ["job", "actor", "step", "het", "gen", "thread"];
const isNumberLike = (word: string): boolean => /^[0-9:-]/.test(word);

export function parseSelection(text: string, ranks: Ranks): Mask {
  return new Parser(text.replace(/\s/g, " "), ranks).selection();
}

class Parser {
  private readonly tokens: Token[];
  private at = 0;

  constructor(private readonly text: string, private readonly ranks: Ranks) {
    this.tokens = this.split();
  }

  private fault(what: string, token: { start: number; end: number }, hint = ""): SelectionError {
    return new SelectionError(what, this.text, token.start, token.end, hint);
  }

  private split(): Token[] {
    const tokens: Token[] = [];
    for (const match of this.text.matchAll(/[(),;=]|"[^"]*"|'[^']*'|["']|[^(),;="']+/g)) {
      const piece = match[0];
      const span = { start: match.index, end: match.index + piece.length };
      if (piece === "'" || piece === '"') throw this.fault("unclosed quote", span);
      if (/^["']/.test(piece)) tokens.push({ kind: "quoted", text: piece.slice(1, -1), ...span });
      else if ("(),;=".includes(piece)) tokens.push({ kind: piece, text: piece, ...span });
      else if (piece.trim()) {
        const start = span.start + piece.indexOf(piece.trim());
        tokens.push({ kind: "word", text: piece.trim(), start, end: start + piece.trim().length });
      }
    }
    tokens.push({ kind: "end", text: "", start: this.text.length, end: this.text.length });
    return tokens;
  }

  private peek = (): Token => this.tokens[this.at];
  private take(): Token {
    const token = this.tokens[this.at];
    if (token.kind !== "end") this.at++;
    return token;
  }

  selection(): Mask {
    let closing = "end";
    if (this.peek().text === "ranks" && this.tokens[1]?.kind === "(") {
      this.at = 2;
      closing = ")";
    }
    const found = new Uint8Array(this.ranks.size);
    for (;;) {
      const mask = this.choice(closing);
      mask.forEach((member, place) => (found[place] |= member));
      const token = this.take();
      if (token.kind === ";") continue;
      if (token.kind !== closing) throw this.fault(token.kind === "end" ? "unclosed parenthesis" : `unexpected ${token.text}`, token);
      if (this.peek().kind !== "end") throw this.fault("unexpected text after the selection", this.peek());
      return found;
    }
  }

  private choice(closing: string): Mask {
    const choice: Choice = { terms: [], numbers: [], roles: [], numbersFirst: isNumberLike(this.peek().text) };
    let followsRole = false;
    let isAll = false;
    for (;;) {
      const token = this.peek();
      if (token.kind !== "word" && token.kind !== "quoted") {
        if (token.kind === closing || token.kind === "end") throw this.fault("nothing here", token, "for every rank: all");
        throw this.fault(`unexpected ${token.text}`, token, "terms are separated by commas, as in ranks(pp=2, dp=(1,3))");
      }
      const name = this.take();
      if (this.peek().kind === "=") {
        this.addTerm(name, choice);
        followsRole = false;
      } else if (name.kind === "word" && (name.text === "all" || name.text === "*")) isAll = true;
      else if (name.kind === "word" && isNumberLike(name.text)) {
        (followsRole ? choice.roles.at(-1)!.numbers : choice.numbers).push(name);
      } else {
        choice.roles.push(this.roleItem(name));
        followsRole = true;
      }
      if (this.peek().kind !== ",") break;
      this.take();
    }
    const items = choice.terms.length + choice.numbers.length + choice.roles.length;
    if (isAll && items) throw this.fault("all cannot be combined with other terms", { start: 0, end: this.text.length });
    return isAll ? this.ranks.all.slice() : this.pick(choice);
  }

  private roleItem(name: Token): RoleItem {
    if (name.kind === "quoted") {
      const follows = this.peek().kind === "word" && isNumberLike(this.peek().text);
      return { role: name, numbers: follows ? [this.take()] : [] };
    }
    const match = /^(.*\S)\s+([0-9]*[-:]?[0-9]*(?::[0-9]*)?)$/.exec(name.text);
    if (!match) return { role: name, numbers: [] };
    const split = name.end - match[2].length;
    return {
      role: { ...name, text: match[1], end: name.start + match[1].length },
      numbers: [{ ...name, text: match[2], start: split }],
    };
  }

  private addTerm(name: Token, choice: Choice): void {
    this.take(); // =
    const key = name.text;
    if (choice.terms.some((term) => term.key === key)) throw this.fault(`${key} given twice`, name, "for several values: tp=(1,3)");
    if (NOT_HERE.includes(key)) throw this.fault(`${key}= works on the command line, not in this page`, name);
    if (![...TEXT_KEYS, ...NUMBER_KEYS, ...this.ranks.columns.dimensions].includes(key)) throw this.noDimension(name);
    const values: Value[] = [];
    if (this.peek().kind === "(") {
      this.take();
      for (;;) {
        values.push(this.value(key));
        const next = this.take();
        if (next.kind === ")") break;
        if (next.kind !== ",") throw this.fault(next.kind === "end" ? "unclosed parenthesis" : `unexpected ${next.text}`, next);
      }
    } else values.push(this.value(key));
    choice.terms.push({ key, values, token: name });
  }

  private noDimension(name: Token): SelectionError {
    const { dimensions } = this.ranks.columns;
    const has = dimensions.map((each, index) => `${each} (${formatNumbers(this.ranks.extent(index))})`).join(", ");
    return this.fault(`no dimension ${name.text}`, name, has ? `this job has: ${has}` : "there are always rank, pid, role, host, state");
  }

  private value(key: string): Value {
    const token = this.take();
    if (token.kind !== "word" && token.kind !== "quoted") throw this.fault(`${key}= has no value`, token);
    return { wanted: TEXT_KEYS.includes(key) ? glob(token.text) : this.range(token), token };
  }

  private range(token: Token): Wanted {
    const dash = /^([0-9]+)(?:\s*-\s*([0-9]+))?$/.exec(token.text);
    const slice = /^(?:([0-9]+)\s*)?:\s*(?:([0-9]+)\s*)?(?::\s*([0-9]+)?)?$/.exec(token.text);
    if (token.kind === "quoted" || (!dash && !slice)) throw this.fault(`${token.text} is not a number or a range`, token, "numbers look like 3, 0-6 or 1:10:2");
    const wanted = dash
      ? { first: Number(dash[1]), end: Number(dash[2] ?? dash[1]) + 1, step: 1 }
      : { first: Number(slice![1] ?? 0), end: Number(slice![2] ?? Infinity), step: Number(slice![3] ?? 1) };
    if (!wanted.step) throw this.fault("the step must not be 0", token);
    if (wanted.end <= wanted.first) throw this.fault(`the range ${token.text} is empty`, token, "a:b ends before b, a-b ends with b");
    return wanted;
  }

  // ---- what a choice picks

  private pick(choice: Choice): Mask {
    this.checkBeside(choice);
    let mask = this.ranks.all.slice();
    const narrow = (other: Mask): void => { mask = mask.map((member, place) => member & other[place]); };
    for (const term of choice.terms) narrow(this.matching(term.key, term.values));
    const roles = choice.roles.map((item) => this.ofRole(item));
    const numbers = choice.numbers.map((token) => ({ wanted: this.range(token), token }));
    if (numbers.length && roles.length && choice.numbersFirst) roles.push(this.matching("rank", numbers));
    else if (numbers.length) narrow(this.matching("rank", numbers));
    if (roles.length) narrow(roles.reduce((one, other) => one.map((member, place) => member | other[place])));
    if (!sizeOf(mask)) throw this.fault("no rank matches all terms", { start: 0, end: this.text.length });
    return mask;
  }

  /** A number beside a dimension may mean a rank, or one more value of the dimension. */
  private checkBeside(choice: Choice): void {
    const term = choice.terms.findLast((each) => !TEXT_KEYS.includes(each.key));
    const number = choice.numbers[0];
    if (!term || !number) return;
    const hint = `write ${term.key}=(…,${number.text}) for one more ${term.key}, or rank=${number.text} for rank ${number.text}`;
    throw this.fault(`${number.text} cannot be mixed with ${term.key}=`, number, hint);
  }

  private ofRole(item: RoleItem): Mask {
    const role = this.matching("role", [{ wanted: glob(item.role.text), token: item.role }]);
    if (!item.numbers.length) return role;
    const numbers = this.matching("rank", item.numbers.map((token) => ({ wanted: this.range(token), token })));
    return role.map((member, place) => member & numbers[place]);
  }

  /** Ranks that have one of the values; each value must be there. */
  private matching(key: string, values: Value[]): Mask {
    const label = this.labelOf(key);
    const mask = new Uint8Array(this.ranks.size);
    for (const { wanted, token } of values) {
      let hits = 0;
      for (let place = 0; place < mask.length; place++)
        if (fits(wanted, label(place))) {
          mask[place] = 1;
          hits++;
        }
      if (!hits) throw this.fault(`no ${key} ${token.text}`, token);
    }
    return mask;
  }

  private labelOf(key: string): (place: number) => number | string | null {
    const { columns, role, host } = this.ranks;
    if (key === "rank") return (place) => columns.numbers[place];
    if (key === "pid") return (place) => columns.pids[place];
    if (key === "role") return role;
    if (key === "host") return host;
    if (key === "state") return (place) => columns.states[columns.state[place]];
    const column = columns.coordinates[columns.dimensions.indexOf(key)];
    return (place) => column[place];
  }
}

function fits(wanted: Wanted, label: number | string | null): boolean {
  if (label === null) return false;
  if (wanted instanceof RegExp) return wanted.test(String(label));
  const number = Number(label);
  return number >= wanted.first && number < wanted.end && (number - wanted.first) % wanted.step === 0;
}

/** `*`, `?` and `[a-c]`, as fnmatch has them. */
function glob(text: string): RegExp {
  const source = text
    .slice(0, 1000)
    .replace(/[.+^${}()|\\]/g, "\\$&")
    .replace(/\*+/g, ".*")
    .replace(/\?/g, ".")
    .replace(/\[!/g, "[^");
  try {
    return new RegExp(`^${source}$`);
  } catch {
    return new RegExp(`^${text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`);
  }
}
